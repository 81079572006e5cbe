"""A kill, a full disk or a broken one at any event of any verb loses nothing, and the verb can be repeated."""

import shutil

import pytest

from drystone import StaleError
from drystone.cli.main import main
from helpers import tiny_run as tiny
from helpers.faults import Killed, injected
from helpers.killing import contents

# Command lines after the run's directory; "fresh" ones begin with the files of the verbs before.
VERBS = {
    "simulate": [],
    "simulate-force": ["--seed", "4", "--force"],
    "simulate-same": ["--force"],
    "train": ["--workers", "1"],
    "train-force": ["--epochs", "3", "--workers", "1", "--force"],
    "tabulate": [],
    "tabulate-other": ["--draws", "13"],
    "tabulate-force": ["--force"],
    "stack": [],
    "stack-force": ["--force"],
    "stack-other": ["--name", "log", "--form", "mixture(concentration=1.5)"],
    "sample": ["--row", "0", "--draws", "5", "--out", "RUN/draws.npz"],
    "compare": [],
}
FRESH = {  # what a fresh verb does not have yet
    "simulate": ("simulations.zarr", "members", "table.zarr", "table.json", "fits", "manifest.json"),
    "train": ("members", "table.zarr", "table.json", "fits"),
    "tabulate": ("table.zarr", "table.json", "fits"),
    "stack": ("fits",),
}
PARTS = ("simulations.zarr", "members", "table.zarr", "fits")
FAULTS = ("kill", "ENOSPC", "EIO")


def start(original, directory, case):
    """A copy of the run as it is before the verb."""
    shutil.rmtree(directory, ignore_errors=True)
    run = tiny.copy(original, directory)
    for name in FRESH.get(case, ()):
        path = run.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if case in FRESH and case != "simulate":
        from drystone.runs.manifest import Manifest

        later = {"train": "train tabulate fits", "tabulate": "tabulate fits", "stack": "fits"}[case].split()
        manifest = Manifest(run)
        manifest.forget(*(stage for stage in manifest.stages if stage.partition("/")[0] in later))
    return run


def call(run, case, force=True):
    words = [word.replace("RUN", str(run.path)) for word in VERBS[case] if force or word != "--force"]
    return main([case.partition("-")[0], str(run.path), *words])


def parts(run):
    whole = contents(run.path)
    found = {part: {n: v for n, v in whole.items() if n.startswith(f"{part}/")} for part in PARTS}
    return found | {"config": whole.get("config.toml")}


def check_case(original, tmp_path, capsys, case, injections_of):
    """Inject faults into one verb; return how many."""
    directory = tmp_path / "run"
    run = start(original, directory, case)
    before = parts(run)
    with injected(directory) as counted:
        assert call(run, case) == 0
    expected, complete = contents(directory), parts(run)
    assert not [name for name in expected if name.startswith((".new", ".ready"))]
    injections = injections_of(counted.count)
    for n, kind in injections:
        run = start(original, directory, case)
        capsys.readouterr()
        code = None
        with injected(directory, n, kind):
            try:
                code = call(run, case)
            except Killed:
                code = "killed"
        said = capsys.readouterr().err
        where = (case, n, kind, said)
        assert code in (("killed",) if kind == "kill" else (0, 1)), where
        with run.opened():  # as every verb does
            pass
        after = parts(run)
        for part in PARTS:
            fresh = not before[part]
            assert fresh or after[part] in (before[part], complete[part]), (*where, part)
        unfinished = any(directory.glob(".ready-*"))
        if before["config"] is not None and case not in FRESH and not unfinished:
            both = [all(after[part] == state[part] for part in (*PARTS, "config")) for state in (before, complete)]
            assert any(both), (*where, "files of one state with the settings of another")
        if code == 1:
            assert str(directory) in said, where
            assert ("the disk is full" in said) == (kind == "ENOSPC"), where
        if code == 0:
            continue  # something that is not needed could not be removed, and will be
        try:
            again = call(run, case, force=kind != "kill")
            said = capsys.readouterr().err
            if again == 1 and kind == "kill" and "--force" in VERBS[case] and "--force" in said:
                again = call(run, case)
        except StaleError:
            again = call(run, case)
        assert again == 0, (*where, said + capsys.readouterr().err)
        assert contents(directory) == expected, where
    return len(injections)


def some(count):
    """One fault at each of some moments of a verb: at its end, where files are exchanged, and two before."""
    moments = sorted({*range(max(1, count - 9), count + 1, 3), count // 2 or 1, 2})
    return [(n, FAULTS[i % len(FAULTS)]) for i, n in enumerate(moments)]


def every(count):
    return [(n, fault) for n in range(1, count + 1) for fault in FAULTS]


@pytest.mark.parametrize("case", VERBS)
def test_a_fault_loses_nothing_and_the_verb_can_be_repeated(original, tmp_path, capsys, case):
    assert check_case(original, tmp_path, capsys, case, some) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("case", VERBS)
def test_a_fault_at_every_event_loses_nothing(original, tmp_path, capsys, case):
    check_case(original, tmp_path, capsys, case, every)
