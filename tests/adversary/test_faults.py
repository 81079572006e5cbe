"""A kill, a full disk or a broken one at any event of any verb loses nothing, and the verb can be repeated."""

import importlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import drystone.cli.demo
from drystone import StaleError
from drystone._files import replacing
from drystone.cli.demo import Size
from drystone.cli.main import main
from drystone.inference import Inference, Refinement, result
from drystone.inference.disk import FIT, MADE_OF, NORMALIZER, STACKING, TEST, settle
from drystone.likelihood import proposal
from drystone.runs import Run
from drystone.runs.config import Config, Simulate
from drystone.runs.manifest import Manifest
from helpers import tiny_run as tiny
from helpers.faults import Killed, injected
from helpers.killing import contents
from helpers.remembered import remember
from helpers.tiny_inference import ROWS, infer_module, shrink

LIKELIHOODS = ("--target", "likelihood", "--members", "2", "--epochs", "2", "--workers", "1")
ONE = ("--members", "1", "--workers", "1")
FILES = ("--theta", "ARRAYS/theta.npy", "--y", "ARRAYS/y.npy", "--lower=-9,-9", "--upper=9,9")
REFINE = ("--at", "ARRAYS/observed.npy", "--n", "100", "--workers", "1")
IMPORTED = ("--theta", "ARRAYS/theta.npy", "--y", "ARRAYS/y.npy", "--train", "30", "--stack", "20")


@dataclass(frozen=True)
class Case:
    """A verb with its options, in a copy of a run from which some is removed.

    Attributes:
        words: Options; RUN stands for the run's directory, ARRAYS for that of simulations made elsewhere.
        absent: What the run does not have yet, in its directory and among the stages of its manifest.
        stages: Those stages.
        likelihoods: Whether the run has likelihoods besides the posteriors.
        inferred: Whether it has an inference, of one member of each kind.
        old_report: Whether it has a report, of something else.
        lengthy: Whether it takes seconds, so that the fast test has two faults.
        events: Least number of file-system events; fewer would mean that the harness misses some.
        parts: Tests that the faults of all events are shared by, so that several processes can have them.
    """

    words: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    likelihoods: bool = False
    inferred: bool = False
    old_report: bool = False
    lengthy: bool = False
    events: int = 4
    parts: int = 1


WHOLE = ("simulations.zarr", "members", "table.zarr", "table.json", "fits", "manifest.json")
VERBS = {
    "simulate": Case(absent=WHOLE),
    "simulate force": Case(("--seed", "4", "--force")),
    "simulate same": Case(("--force",)),
    "simulate imported": Case(IMPORTED, (*WHOLE, "config.toml")),
    "simulate imported, force": Case((*IMPORTED, "--force")),
    "train": Case(("--workers", "1"), WHOLE[1:5], ("train", "tabulate", "fits")),
    "train force": Case(("--epochs", "3", "--workers", "1", "--force")),
    "train likelihoods": Case(LIKELIHOODS, ("likelihoods",)),
    "train likelihoods, force": Case((*LIKELIHOODS, "--seed", "5", "--force"), likelihoods=True),
    "tabulate": Case(absent=WHOLE[2:5], stages=("tabulate", "fits")),
    "tabulate other": Case(("--draws", "13")),
    "tabulate force": Case(("--force",)),
    "tabulate likelihoods": Case(likelihoods=True, lengthy=True, events=300, parts=4),
    "stack": Case(absent=("fits",), stages=("fits",)),
    "stack force": Case(("--force",)),
    "stack other": Case(("--name", "log", "--form", "mixture(concentration=1.5)")),
    "sample": Case(("--row", "0", "--draws", "5", "--out", "RUN/draws.npz")),
    "compare": Case(events=2),
    "report": Case(lengthy=True),
    "report again": Case(old_report=True, lengthy=True),
    "infer": Case((*ONE, "--target", "posterior"), ("inference",), lengthy=True, events=150, parts=4),
    "infer both": Case(ONE, ("inference",), lengthy=True, events=300, parts=4),
    "infer files": Case((*FILES, *ONE, "--target", "posterior"), (*WHOLE, "config.toml"), lengthy=True, parts=4),
    "infer further": Case(("--members", "2", *ONE[2:]), inferred=True, lengthy=True, events=300, parts=8),
    "refine": Case(REFINE, lengthy=True, events=80),
    "demo": Case(("--workers", "1"), (*WHOLE, "config.toml"), lengthy=True, events=300, parts=8),
}
# What takes long and writes no file, by module.
REMEMBERED = {
    "drystone.inference.infer": ("better_form", "compare"),
    "drystone.inference.refine": ("local_calibration",),
    "drystone.inference.result": ("advise",),
    "drystone.tabulation.workers": ("tabulate_rows",),
    "drystone.training.refit": ("_again",),
    "drystone.training.train": ("run",),
}
RESULTS = tuple(f"inference/{each}" for each in (STACKING, TEST, NORMALIZER, MADE_OF, FIT))
PARTS = ("simulations.zarr", "members", "likelihoods", "table.zarr", "fits", "report.html", *RESULTS)
FAULTS = ("kill", "ENOSPC", "EIO")
# The last column of the table of members, and why a part of the advice was left out.
TIMES = re.compile(
    r'<td class="number" data-key="[0-9.e-]*">[0-9.e-]*</td>(?=\s*</tr>)|would take about [0-9.]+ s'
)


@pytest.fixture(scope="module")
def with_likelihoods(original, tmp_path_factory):
    """The tiny run, with two likelihoods."""
    run = tiny.copy(original, tmp_path_factory.mktemp("likelihoods") / "run")
    assert main(["train", str(run.path), *LIKELIHOODS]) == 0
    return run


class FixedDate(datetime):
    """The date of every report."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 1)


def make_small(monkeypatch):
    """Let `demo` and `infer` be as small as the tiny run, and all reports of one day."""
    small = Size(Config(Simulate("two_moons", 100, ROWS, 20, seed=1)), members=1, epochs=1)
    monkeypatch.setattr(drystone.cli.demo, "settings", lambda quick: small)
    shrink(monkeypatch)
    train = infer_module.train
    monkeypatch.setattr(infer_module, "train", lambda *rows, **options: train(*rows, **options | {"epochs": 1}))
    # Networks of one epoch propose nothing, and from the prior alone points are searched for long.
    monkeypatch.setattr(proposal, "FROM_PRIOR", replace(proposal.FROM_PROPOSAL, share=0.1))
    monkeypatch.setattr("drystone.report.page.datetime", FixedDate)


@pytest.fixture(scope="module")
def with_inference(original, tmp_path_factory):
    """The tiny run, with an inference of one member of each kind."""
    run = tiny.copy(original, tmp_path_factory.mktemp("inferred") / "run")
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        assert main(["infer", str(run.path), *ONE]) == 0
    return run


@pytest.fixture
def originals(original, with_likelihoods, with_inference, tmp_path, monkeypatch):
    """The runs, by whether they have likelihoods and an inference; arrays lie beside their copies."""
    make_small(monkeypatch)
    rng = np.random.default_rng(0)
    theta, noise = rng.normal(size=(140, 2)), rng.normal(size=(140, 2))
    for name, array in (("theta", theta), ("y", theta + noise), ("observed", noise[0])):
        np.save(tmp_path / f"{name}.npy", array)
    return {(False, False): original, (True, False): with_likelihoods, (False, True): with_inference}


def start(originals, directory, case):
    """A copy of the run as it is before the verb."""
    shutil.rmtree(directory, ignore_errors=True)
    run = tiny.copy(originals[case.likelihoods, case.inferred], directory)
    for name in case.absent:
        path = run.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if case.stages:
        manifest = Manifest(run)
        manifest.forget(*(stage for stage in manifest.stages if stage.partition("/")[0] in case.stages))
    if case.old_report:
        run.report.write_text("an old report")
    return run


def call(run: Run, verb, words, force=True):
    beside = str(run.path.parent)
    words = [word.replace("RUN", str(run.path)).replace("ARRAYS", beside) for word in words]
    return main([verb, str(run.path), *(word for word in words if force or word != "--force")])


def files(directory):
    """Checksums of all files, and the report without the times that something took."""
    checksums = contents(directory)
    for name in checksums:
        if name.endswith("report.html"):
            checksums[name] = TIMES.sub("", (directory / name).read_text())
    return checksums


def parts(run):
    whole = files(run.path)
    found = {part: {n: v for n, v in whole.items() if n == part or n.startswith(f"{part}/")} for part in PARTS}
    return found | {"config": whole.get("config.toml")}


def check_case(originals, tmp_path, capsys, name, injections_of):
    """Inject faults into one verb."""
    directory, case, verb = tmp_path / "run", VERBS[name], name.partition(" ")[0]
    run = start(originals, directory, case)
    before = parts(run)
    with injected(directory) as counted:
        assert call(run, verb, case.words) == 0
    expected, complete = files(directory), parts(run)
    assert not [name for name in expected if re.search(r"(^|/)\.(new|ready)|\.(tmp|old)$", name)]
    assert counted.count >= case.events
    for n, kind in injections_of(counted.count):
        run = start(originals, directory, case)
        capsys.readouterr()
        code = None
        with injected(directory, n, kind):
            try:
                code = call(run, verb, case.words)
            except Killed:
                code = "killed"
        said = capsys.readouterr().err
        where = (name, n, kind, said)
        assert code in (("killed",) if kind == "kill" else (0, 1)), where
        with run.opened():  # as every verb does
            settle(run.path / "inference")  # as every reader of an inference does
        after = parts(run)
        for part in PARTS:
            fresh = not before[part]
            assert fresh or after[part] in (before[part], complete[part]), (*where, part)
        if before["inference/fit.json"]:
            both = [all(after[part] == state[part] for part in RESULTS) for state in (before, complete)]
            assert any(both), (*where, "tables of one inference with the fit of another")
        unfinished = any(directory.glob(".ready-*"))
        if before["config"] is not None and not case.absent and not unfinished:
            both = [all(after[part] == state[part] for part in (*PARTS, "config")) for state in (before, complete)]
            assert any(both), (*where, "files of one state with the settings of another")
        if code == 1:
            assert str(directory) in said, where
            assert ("the disk is full" in said) == (kind == "ENOSPC"), where
        if code == 0:
            continue  # something that is not needed could not be removed, and will be
        try:
            again = call(run, verb, case.words, force=kind != "kill")
            said = capsys.readouterr().err
            if again == 1 and kind == "kill" and "--force" in case.words and "--force" in said:
                again = call(run, verb, case.words)
        except StaleError:
            again = call(run, verb, case.words)
        assert again == 0, (*where, said + capsys.readouterr().err)
        assert files(directory) == expected, where


def some(count, lengthy):
    """One fault at each of some moments of a verb: at its end, where files are exchanged, and two before."""
    if lengthy:
        return [(count // 2, "ENOSPC"), (count - 3, "kill")]
    moments = sorted({*range(max(1, count - 9), count + 1, 3), count // 2 or 1, 2})
    return [(n, FAULTS[i % len(FAULTS)]) for i, n in enumerate(moments)]


def every(count):
    return [(n, fault) for n in range(1, count + 1) for fault in FAULTS]


# Those that take long are left to the slow test.
@pytest.mark.parametrize("name", [name for name in VERBS if name not in ("demo", "infer", "infer both")])
def test_a_fault_loses_nothing_and_the_verb_can_be_repeated(originals, tmp_path, capsys, name):
    lengthy = VERBS[name].lengthy
    check_case(originals, tmp_path, capsys, name, lambda count: some(count, lengthy))


def page_without_pictures(path, *, comparison=None, advice=(), notes=(), **_):
    """The numbers of a report: its pictures take longer than an inference, and `report` has faults of its own."""
    with replacing(path) as temporary:
        temporary.write_text("\n".join([*advice, *notes, "" if comparison is None else comparison.frame.to_csv()]))
    return path


@pytest.fixture
def quickly(monkeypatch):
    """Let only the files be made at each fault: what is computed is remembered, and pages have no pictures."""
    monkeypatch.setattr(result, "write", page_without_pictures)
    monkeypatch.setattr(Inference, "_observations", lambda *_: [])
    monkeypatch.setattr(Refinement, "at", lambda *_, **__: None)
    monkeypatch.setattr("drystone.report.write", page_without_pictures)
    # Nothing but this process is killed, so that the system has what it wrote.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for module, names in REMEMBERED.items():
        remember(monkeypatch, importlib.import_module(module), *names)


@pytest.fixture
def in_memory(tmp_path, originals):
    """A directory with the arrays, in memory if the system has such."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if usable else tmp_path, prefix="drystone-faults-") as directory:
        for path in tmp_path.glob("*.npy"):
            shutil.copy(path, directory)
        yield Path(directory)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize(("name", "part"), [(name, part) for name in VERBS for part in range(VERBS[name].parts)])
def test_a_fault_at_every_event_loses_nothing(originals, in_memory, capsys, name, part):
    parts = VERBS[name].parts
    check_case(originals, in_memory, capsys, name, lambda count: every(count)[part::parts])
