"""Tests for drystone.tabulate and drystone.tabulation."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import drystone as ds
from drystone.table import blocks
from drystone.tabulation.job import NUMBERS
from drystone.tabulation.parts import StoredParts
from helpers.stored_table import held

RNG = np.random.default_rng(5)
THETA = RNG.normal(size=(137, 2))
Y = THETA + RNG.normal(size=(137, 2))


class Normal:
    """N(y + shift, scale²) in each parameter; takes a seed."""

    def __init__(self, shift, scale):
        self.shift, self.scale = shift, scale

    def log_prob(self, theta, y):
        return stats.norm.logpdf(theta, y + self.shift, self.scale).sum(-1)

    def sample(self, n, y, seed):
        return y + self.shift + self.scale * np.random.default_rng(seed).normal(size=(n, *y.shape))


class Torch(Normal):
    """Uses torch's generator, as members of other libraries do."""

    def sample(self, n, y):  # pyright: ignore[reportIncompatibleMethodOverride]

        return torch.as_tensor(y) + self.shift + self.scale * torch.randn(n, *y.shape, dtype=torch.float64)


class Sampler:
    def sample(self, n, y, seed):
        return y + np.random.default_rng(seed).normal(size=(n, *y.shape))


class Density:
    def log_prob(self, theta, y):
        return stats.norm.logpdf(theta, y).sum(-1)


class Raising(Normal):
    def sample(self, n, y, seed):
        raise RuntimeError("no draw within the prior\nafter many attempts")


class Changing(Normal):
    """Works on the array of that name in place, as `theta -= y` does."""

    def __init__(self, array):
        super().__init__(0.0, 1.0)
        self.array = array

    def log_prob(self, theta, y):
        {"theta": theta, "y": y, "y of sample": np.zeros(1)}[self.array][:] += 5.0
        return super().log_prob(theta, y)

    def sample(self, n, y, seed):
        y += 5.0
        return super().sample(n, y, seed)


class Hanging(Normal):
    def sample(self, n, y, seed):
        while True:
            time.sleep(0.01)


class Crashing(Normal):
    def sample(self, n, y, seed):
        os._exit(7)


class NotFinite(Normal):
    def sample(self, n, y, seed):
        draws = super().sample(n, y, seed)
        draws[0, 0] = np.nan
        return draws


MEMBERS = {"narrow": Normal(0.1, 0.7), "wide": Torch(-0.2, 1.3), "shifted": Normal(0.4, 1.0)}


def assert_same(a, b):
    assert (a.names, held(a).keys(), a.left_out) == (b.names, held(b).keys(), b.left_out)
    for key in held(a):
        np.testing.assert_array_equal(held(a)[key], held(b)[key])


def test_densities_and_statistics_agree_with_closed_forms():
    table = ds.tabulate(MEMBERS, THETA, Y, draws=4000, levels=(0.1, 0.5, 0.9))
    assert table.names == ("narrow", "wide", "shifted")
    assert table.levels == (0.1, 0.5, 0.9)
    for k, member in enumerate(MEMBERS.values()):
        np.testing.assert_allclose(table.log_q[k], member.log_prob(THETA, Y))
        np.testing.assert_allclose(table.mean[k], Y + member.shift, atol=5 * member.scale / np.sqrt(4000))
        np.testing.assert_allclose(
            table.cov[k], np.broadcast_to(member.scale**2 * np.eye(2), (137, 2, 2)), atol=0.25 * member.scale**2
        )
        exact = stats.norm.cdf(THETA, Y + member.shift, member.scale)
        np.testing.assert_allclose(table.rank[k], exact, atol=5 * 0.5 / np.sqrt(4000))
        quantile = Y + member.shift + member.scale * stats.norm.ppf(0.9)
        np.testing.assert_allclose(table.quantile(0.9)[k], quantile, atol=0.2 * member.scale)
    assert "draws" not in table.gives


def test_parameters_have_the_names_of_their_columns():
    table = ds.tabulate(MEMBERS, pd.DataFrame(THETA, columns=["beta", "gamma"]), Y, draws=0)
    assert table.parameters == ("beta", "gamma")
    np.testing.assert_array_equal(table.log_q, ds.tabulate(MEMBERS, THETA, Y, draws=0).log_q)


def test_statistics_are_those_of_the_draws_that_are_kept():
    table = ds.tabulate(MEMBERS, THETA, Y, draws=31, keep_draws=True)
    assert table.draws.shape == (3, 137, 31, 2)
    of_draws = ds.Table(THETA, draws=table.draws)
    for name in ("rank", "mean", "cov"):
        np.testing.assert_array_equal(getattr(table, name), getattr(of_draws, name))
    np.testing.assert_array_equal(table.quantile(0.05), of_draws.quantile(0.05))


def test_draws_of_a_block_are_not_those_of_another():
    table = ds.tabulate([Normal(0.0, 1.0)], THETA, np.zeros_like(Y), draws=5, keep_draws=True)
    assert len(np.unique(table.draws)) == table.draws.size


@pytest.mark.parametrize("chunk", [1, 50, 77, 10_000])
def test_the_chunk_does_not_change_the_result(chunk):
    assert_same(ds.tabulate(MEMBERS, THETA, Y, draws=20), ds.tabulate(MEMBERS, THETA, Y, draws=20, chunk=chunk))


def test_workers_and_executors_do_not_change_the_result():
    here = ds.tabulate(MEMBERS, THETA, Y, draws=20)
    assert_same(here, ds.tabulate(MEMBERS, THETA, Y, draws=20, workers=2, chunk=50))
    seeded = {name: member for name, member in MEMBERS.items() if name != "wide"}
    with ThreadPoolExecutor(3) as pool:
        on_threads = ds.tabulate(seeded, THETA, Y, draws=20, client=pool, chunk=50)
    assert_same(here.select(members=list(seeded)), on_threads)


def test_threads_do_not_change_the_result():
    theta, y = ds.toy.simulate(130, seed=1)
    prior = ds.tasks.Uniform([-12.0], [12.0])  # of the two posteriors one is mapped, the other restricted
    options: Any = {"members": 2, "epochs": 2, "workers": 1, "prior": prior}
    posteriors, likelihoods = ds.train(theta, y, **options), ds.train(theta, y, target="likelihood", **options)
    assert {member.configuration.bounds for member in posteriors} == {"map", "restrict"}

    def tabulated(threads):
        members = dict(zip(posteriors.names, posteriors, strict=True))
        members |= ds.normalize(likelihoods, prior=prior, proposal=posteriors, draws=50)
        return ds.tabulate(members, theta, y, draws=20, points=30, prior=prior, threads=threads)

    one, several = tabulated(1), tabulated(3)
    assert_same(one, several)
    np.testing.assert_array_equal(one.points, several.points)
    np.testing.assert_array_equal(one.log_f, several.log_f)


def test_a_member_that_raises_in_a_thread_is_left_out():
    class Failing(Normal):
        def log_prob(self, theta, y):
            raise SystemExit(3)

    members = {"shifted": MEMBERS["shifted"], "failing": Failing(0.0, 1.0)}
    with pytest.warns(UserWarning, match="failing"):
        table = ds.tabulate(members, THETA, Y, draws=9, threads=2)
    assert table.names == ("shifted",)
    assert "SystemExit" in table.left_out["failing"]


def test_a_member_is_the_same_whoever_else_is_tabulated():
    alone = ds.tabulate({"shifted": MEMBERS["shifted"]}, THETA, Y, draws=20)
    assert_same(alone, ds.tabulate(MEMBERS, THETA, Y, draws=20).select(members=["shifted"]))


def test_the_global_generators_are_not_touched():

    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    ds.tabulate(MEMBERS, THETA, Y, draws=7)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Raising(0.0, 1.0), "RuntimeError: no draw within the prior$"),
        (NotFinite(0.0, 1.0), "ValueError: .*of the draws are not finite"),
        (object(), "has no `log_prob`"),
    ],
)
def test_a_member_that_fails_is_left_out_with_its_reason(bad, reason):
    with pytest.warns(UserWarning, match="1 of 4 members are left out. bad: "):
        table = ds.tabulate({"bad": bad, **MEMBERS}, THETA, Y, draws=9)
    assert table.names == tuple(MEMBERS)
    assert list(table.left_out) == ["bad"]
    assert re.search(reason, table.left_out["bad"])
    with pytest.raises(RuntimeError, match="every member failed"):
        ds.tabulate({"bad": bad}, THETA, Y, draws=9)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("array", ["theta", "y", "y of sample"])
def test_a_member_that_changes_its_arrays_is_left_out_and_changes_nothing_else(array, workers):
    theta, y = THETA.copy(), Y.copy()
    members = {"first": MEMBERS["narrow"], "changes": Changing(array), "next": MEMBERS["narrow"]}
    with pytest.warns(UserWarning, match="1 of 3 members are left out"):
        table = ds.tabulate(members, theta, y, draws=9, workers=workers)
    reason = f"ValueError: member 'changes' changed `{array[:5].split()[0]}` in place; work on a copy."
    assert table.left_out == {"changes": reason}
    np.testing.assert_array_equal(table.log_q[1], MEMBERS["narrow"].log_prob(THETA, Y))
    for unchanged, expected in ((theta, THETA), (table.theta, THETA), (y, Y), (table.y, Y)):
        np.testing.assert_array_equal(unchanged, expected)


def test_missing_data_are_not_taken_for_changed_data():
    class Missing(Normal):
        def log_prob(self, theta, y):
            return super().log_prob(theta, np.nan_to_num(y))

    y = np.where(np.arange(137)[:, None] % 5 == 0, np.nan, Y)
    table = ds.tabulate({"copes": Missing(0.0, 1.0)}, THETA, y, draws=0)
    np.testing.assert_array_equal(table.log_q[0], Normal(0.0, 1.0).log_prob(THETA, np.nan_to_num(y)))


def test_members_that_hang_or_crash_are_left_out_and_the_rest_goes_on():
    members = {"hangs": Hanging(0.0, 1.0), "crashes": Crashing(0.0, 1.0), **MEMBERS}
    with pytest.warns(UserWarning, match="2 of 5 members are left out"):
        table = ds.tabulate(members, THETA, Y, draws=9, workers=2, time_limit=2.0)
    assert table.names == tuple(MEMBERS)
    assert "time limit of 2 s" in table.left_out["hangs"]
    assert table.left_out["crashes"] == "its process died with exit code 7"
    np.testing.assert_array_equal(table.rank, ds.tabulate(MEMBERS, THETA, Y, draws=9).rank)


def test_a_member_that_hangs_on_a_cluster_is_stopped():
    members = {"hangs": Hanging(0.0, 1.0), "shifted": MEMBERS["shifted"]}
    with ThreadPoolExecutor(2) as pool, pytest.warns(UserWarning, match="hangs: took longer"):
        table = ds.tabulate(members, THETA, Y, draws=9, client=pool, time_limit=1.0)
    assert table.names == ("shifted",)


MIXED = {"mcmc": Sampler(), "narrow": MEMBERS["narrow"], "density": Density(), "wide": MEMBERS["wide"]}


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_some_members_cannot_give_the_others_keep(tmp_path, on_disk):
    directory = tmp_path if on_disk else None
    with (
        pytest.warns(UserWarning, match=r"rows of mcmc are without `log_q` \(no `log_prob`\)"),
        pytest.warns(UserWarning, match=r"rows of density are without ranks, .*\(no `sample`\)"),
    ):
        table = ds.tabulate(MIXED, THETA, Y, draws=9, keep_draws=True, directory=directory)
    np.testing.assert_array_equal(table.has("log_q"), [False, True, True, True])
    for name in ("rank", "mean", "moments", "interval", "draws"):
        np.testing.assert_array_equal(table.has(name), [True, True, False, True])
    whole = ds.tabulate(MEMBERS, THETA, Y, draws=9, keep_draws=True)
    for name in ("log_q", "rank", "mean", "cov", "draws"):
        array = np.asarray(getattr(table, name))
        np.testing.assert_array_equal(array[[1, 3]], np.asarray(getattr(whole, name))[:2], err_msg=name)
        assert np.isnan(array[0 if name == "log_q" else 2]).all()


def test_what_a_member_cannot_give_is_said_before_the_first_row_is_computed():
    said = []

    class First(Normal):
        def log_prob(self, theta, y):
            said.extend(str(warning.message) for warning in caught)
            return super().log_prob(theta, y)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds.tabulate({"first": First(0.0, 1.0), "mcmc": Sampler()}, THETA, Y, draws=9)
    assert any("rows of mcmc are without `log_q`" in text for text in said)


class Counting(Normal):
    """Counts the rows that it is asked for."""

    rows = 0

    def log_prob(self, theta, y):
        self.rows += len(theta)
        return super().log_prob(theta, y)


@pytest.mark.parametrize("added", [{"mcmc": Sampler()}, {"density": Density()}, {"last": Normal(0.3, 1.1)}])
@pytest.mark.filterwarnings("ignore:the rows of")
def test_added_members_are_computed_and_finished_ones_are_not(tmp_path, added):
    first = {"a": Counting(0.0, 1.0), "b": Counting(0.1, 0.8)}
    ds.tabulate(first, THETA, Y, draws=9, directory=tmp_path)
    table = ds.tabulate({**added, **first}, THETA, Y, draws=9, directory=tmp_path)
    assert [member.rows for member in first.values()] == [137, 137]
    whole = ds.tabulate({**added, **first}, THETA, Y, draws=9)
    assert_same(table, whole)
    assert table.lacking == whole.lacking
    assert_same(whole, ds.tabulate({**first, **added}, THETA, Y, draws=9, directory=tmp_path).select(whole.names))
    with pytest.raises(ds.StaleError, match="names was"):
        ds.tabulate(first, THETA, Y, draws=9, directory=tmp_path)


def test_a_killed_tabulation_of_added_members_continues(tmp_path, monkeypatch):
    ds.tabulate({"a": Normal(0.0, 1.0)}, THETA, Y, draws=9, directory=tmp_path)
    members = {"b": Normal(0.1, 0.8), "a": Counting(0.0, 1.0)}
    with monkeypatch.context() as patch:
        patch.setattr(StoredParts, "table", lambda self, header: None)  # as if killed just before the end
        ds.tabulate(members, THETA, Y, draws=9, directory=tmp_path)
    members["b"] = Raising(0.1, 0.8)
    assert_same(
        ds.tabulate(members, THETA, Y, draws=9, directory=tmp_path),
        ds.tabulate({"b": Normal(0.1, 0.8), "a": Normal(0.0, 1.0)}, THETA, Y, draws=9),
    )
    assert members["a"].rows == 0


def test_without_draws_only_densities_are_asked_for():
    table = ds.tabulate({"density": Density(), **MEMBERS}, THETA, Y, draws=0)
    assert table.gives == {"log_q"}


def test_left_out_members_survive_selection_and_files(tmp_path):
    with pytest.warns(UserWarning, match="left out"):
        table = ds.tabulate({"bad": Raising(0.0, 1.0), **MEMBERS}, THETA, Y, draws=9)
    for suffix in (".zarr", ".nc"):
        table.save(tmp_path / f"table{suffix}")
        assert ds.Table.load(tmp_path / f"table{suffix}").left_out == table.left_out
    assert table.select(rows=[1, 2]).left_out == table.left_out


def test_memory_does_not_grow_with_the_number_of_draws():
    def peak(draws):
        tracemalloc.start()
        ds.tabulate([Normal(0.0, 1.0)], THETA, Y, draws=draws)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    # A block holds at most NUMBERS draws, and a handful of arrays of that size are at work at once.
    few, many = peak(20_000), peak(60_000)
    assert few < 12 * 8 * NUMBERS
    assert many < 1.5 * few


RUN = """
    import sys, time
    import numpy as np
    import drystone as ds
    from test_tabulate import MEMBERS, THETA, Y, Normal

    class Slow(Normal):
        def log_prob(self, theta, y):
            time.sleep(0.15)
            return super().log_prob(theta, y)

    members = {f"slow {k}/{k}": Slow(0.1 * k, 1.0) for k in range(4)}
    ds.tabulate(members, THETA, Y, draws=20, chunk=50, directory=sys.argv[1])
"""


def test_a_killed_tabulation_continues_and_ends_with_the_same_table(tmp_path):
    def start(directory):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2]))}
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(RUN), str(directory)], env=environment)

    assert start(tmp_path / "whole").wait() == 0
    process = start(tmp_path / "killed")
    parts = tmp_path / "killed" / "table.parts"
    while process.poll() is None and len(list(parts.glob("slow*.npz"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in parts.glob("slow*.npz")}
    assert 3 <= len(before) < 12
    process = start(tmp_path / "killed")
    while process.poll() is None and len(list(parts.glob("slow*.npz"))) <= len(before):
        time.sleep(0.01)
    assert {path: path.stat().st_mtime_ns for path in before if path.exists()} in (before, {})
    assert process.wait() == 0
    assert not parts.exists()
    assert_same(
        ds.Table.load(tmp_path / "whole" / "table.zarr"), ds.Table.load(tmp_path / "killed" / "table.zarr")
    )


def test_a_finished_table_is_read_and_one_of_other_settings_refused(tmp_path):
    first = ds.tabulate(MEMBERS, THETA, Y, draws=9, directory=tmp_path)
    broken = {name: Raising(0.0, 1.0) for name in MEMBERS}
    assert_same(first, ds.tabulate(broken, THETA, Y, draws=9, directory=tmp_path))
    with pytest.raises(ds.StaleError, match=r"the table in .*draws was 9 and is 10"):
        ds.tabulate(MEMBERS, THETA, Y, draws=10, directory=tmp_path)
    with pytest.raises(ds.StaleError, match=r"the table in .*y changed"):
        ds.tabulate(MEMBERS, THETA, Y + 1, draws=9, directory=tmp_path)


def test_shared_points_of_another_prior_are_refused(tmp_path):
    d = THETA.shape[1]
    wide, wider = (ds.tasks.Normal([0.0] * d, [sd] * d) for sd in (9.0, 10.0))
    ds.tabulate(MEMBERS, THETA, Y, draws=0, points=20, prior=wide, directory=tmp_path)
    with pytest.raises(ds.StaleError, match=r"the table in .*prior changed"):
        ds.tabulate(MEMBERS, THETA, Y, draws=0, points=20, prior=wider, directory=tmp_path)


def test_a_finished_table_warns_again_of_members_left_out(tmp_path):
    for _ in range(2):
        with pytest.warns(UserWarning, match="bad: RuntimeError: no draw within the prior"):
            ds.tabulate({"bad": Raising(0.0, 1.0), **MEMBERS}, THETA, Y, draws=9, directory=tmp_path)


def test_a_table_knows_how_many_draws_stand_behind_its_ranks(tmp_path):
    table = ds.tabulate(MEMBERS, THETA, Y, draws=20)
    table.save(tmp_path / "table.zarr")
    table.save(tmp_path / "table.nc")
    for other in (table, table.select(rows=[1, 2]), *map(ds.Table.load, tmp_path.glob("table.*"))):
        assert other.S == 20
    assert ds.Table.open(tmp_path / "table.zarr").S == 20


def test_members_get_numbers_as_rows_of_one_number():
    seen = []

    def log_prob(theta, y):
        seen.append(y.shape)
        return stats.norm.logpdf(theta[:, 0], y[:, 0])

    table = ds.tabulate([ds.adapters.from_functions(log_prob)], THETA[:, 0], Y[:, 0], draws=0)
    ds.stack(table).posterior([ds.adapters.from_functions(log_prob)]).log_prob_batched(THETA[:5, :1], Y[:5, 0])
    assert set(seen) == {(137, 1), (5, 1)}


def test_members_that_cannot_be_imported_go_to_an_executor_of_processes():
    members = {"local": ds.adapters.from_functions(lambda theta, y: stats.norm.logpdf(theta, y).sum(-1))}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        table = ds.tabulate(members, THETA, Y, draws=0, client=pool)
    np.testing.assert_allclose(table.log_q[0], stats.norm.logpdf(THETA, Y).sum(-1))


def test_a_damaged_part_is_named_and_made_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(StoredParts, "table", lambda self, outline: None)  # as if killed just before the end
        ds.tabulate(MEMBERS, THETA, Y, draws=9, directory=tmp_path)
    part = next((tmp_path / "table.parts").glob("wide*.npz"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.warns(UserWarning, match="wide.*cannot be read"):
        table = ds.tabulate(MEMBERS, THETA, Y, draws=9, directory=tmp_path)
    assert_same(ds.tabulate(MEMBERS, THETA, Y, draws=9), table)


def test_a_finished_table_that_was_moved_aside_is_found_again(tmp_path):
    whole = ds.tabulate(MEMBERS, THETA, Y, draws=9, directory=tmp_path)
    # As a process leaves it that is killed while it exchanges the table for a new one.
    (tmp_path / "table.zarr").rename(tmp_path / ".table.zarr.0f.old")
    assert_same(
        whole, ds.tabulate({name: Raising(0.0, 1.0) for name in MEMBERS}, THETA, Y, draws=9, directory=tmp_path)
    )


class Narrow(Normal):
    def sample(self, n, y, seed):
        return super().sample(n, y, seed).astype(np.float32)


@pytest.mark.parametrize("first", ["narrow", "wide"])
def test_draws_have_the_widest_type_of_the_members(tmp_path, first):
    members = {"narrow": Narrow(0.0, 1.0), "wide": Normal(0.1, 1.0)}
    members = {first: members.pop(first), **members}
    here = ds.tabulate(members, THETA, Y, draws=9, keep_draws=True)
    there = ds.tabulate(members, THETA, Y, draws=9, keep_draws=True, directory=tmp_path, chunk=50)
    assert here.draws.dtype == there.draws.dtype == np.float64
    np.testing.assert_array_equal(there.draws, here.draws)


def test_a_table_on_disk_never_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("drystone.tabulation.parts.MEMORY", 2**16)
    members, N = [Density()] * 60, 20_000
    theta = np.random.default_rng(2).normal(size=(N, 2))
    ds.tabulate(members[:1], THETA, Y, draws=0, directory=tmp_path / "imports")
    tracemalloc.start()
    table = ds.tabulate(members, theta, theta, draws=0, chunk=4000, directory=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not blocks.in_memory(table)
    assert peak < len(members) * N * 8 / 2
    np.testing.assert_allclose(
        table.select(["member_7"], slice(0, 9)).log_q[0], Density().log_prob(theta, theta)[:9]
    )


def test_an_ensemble_brings_its_names():
    theta, y = ds.simulate(ds.tasks.get("gaussian"), n=300)
    ensemble = ds.train(theta, y, members=2, epochs=2)
    table = ds.tabulate(ensemble, theta[:40], y[:40], draws=8)
    assert table.names == ensemble.names
    np.testing.assert_allclose(table.log_q, ensemble.log_prob(theta[:40], y[:40]), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"members": {}}, ValueError, "`members` is empty"),
        ({"members": Normal(0.0, 1.0)}, TypeError, "pass a list of one"),
        ({"y": Y[:-1]}, ValueError, "`y` must have one row per row of `theta`, 137"),
        ({"theta": THETA[0]}, ValueError, "`y` must have one row"),
        ({"members": {1: Normal(0.0, 1.0), "1": Normal(0.1, 1.0)}}, ValueError, "must be unique; duplicated: '1'"),
        ({"theta": THETA * np.nan}, ValueError, "`theta` must be finite"),
        ({"draws": -1}, ValueError, "`draws` must be at least 0"),
        ({"seed": -1}, ValueError, "`seed` must be at least 0"),
        ({"levels": (0.0, 0.5)}, ValueError, "`levels` must be a sequence of numbers in"),
        ({"levels": 0.5}, ValueError, "`levels` must be a sequence of numbers in"),
        ({"workers": 0}, ValueError, "`workers` must be at least 1"),
        ({"threads": 0}, ValueError, "`threads` must be at least 1"),
        ({"parameters": ["a"]}, ValueError, "`parameters` must have 2 entries"),
        ({"row_weights": [1.0, 2.0]}, ValueError, "`row_weights` must have shape"),
        ({"time_limit": 0}, ValueError, "`time_limit` must be a positive"),
    ],
)
def test_wrong_arguments_are_named(change, error, match):
    arguments = {"members": MEMBERS, "theta": THETA, "y": Y, "draws": 3} | change
    with pytest.raises(error, match=match):
        ds.tabulate(**arguments)


class Held:
    """Cannot travel to another process."""

    def __init__(self):
        self.lock = threading.Lock()

    def sample(self, n, y, seed):
        return np.zeros((n, *y.shape))


class Sometimes:
    """Has a density for some data only."""

    def log_prob(self, theta, y):
        if y[0, 0] > 0:
            raise ds.IntractableError("not here")
        return -(theta**2).sum(1)

    def sample(self, n, y, seed):
        return np.random.default_rng(seed).normal(size=(n, *y.shape))


def test_a_member_that_cannot_travel_is_left_out(tmp_path):
    theta = np.ones((5, 1))
    with (
        pytest.warns(UserWarning, match="rows of held are without"),
        pytest.warns(UserWarning, match="1 of 2 members are left out. held"),
        ThreadPoolExecutor(1) as pool,
    ):
        table = ds.tabulate({"held": Held(), "fine": Sometimes()}, theta, theta, draws=3, client=pool)
    assert table.names == ("fine",)


def test_a_density_for_some_rows_is_none():
    y = np.linspace(-1, 1, 120)[:, None]
    table = ds.tabulate([Sometimes()], y, y, draws=3)
    assert "log_q" not in table.gives
    assert "rank" in table.gives


def test_rows_of_nan_data_are_named_and_members_are_not_blamed():
    y = Y.copy()
    y[[4, 9], 1] = np.nan
    ensemble = ds.train(THETA, Y, sweep=[ds.Configuration(units=8, transforms=1)], epochs=1, progress=False)
    with pytest.raises(
        ValueError, match=r"`y` must be finite; 2 \(4, 9\) of 137 rows are not.* Drop these"
    ) as caught:
        ds.tabulate(ensemble, THETA, y, draws=5)
    assert "nsf-000" not in str(caught.value)
    with pytest.raises(ValueError, match=r"`theta` must be finite; 2 \(4, 9\) of 137 rows are not"):
        ds.tabulate(ensemble, y, Y, draws=5)


class Imputing(Normal):
    """Takes 0 for what is missing."""

    def log_prob(self, theta, y):
        return super().log_prob(theta, np.nan_to_num(y))

    def sample(self, n, y, seed):
        return super().sample(n, np.nan_to_num(y), seed)


def test_members_made_for_missing_data_are_tabulated():
    y = Y.copy()
    y[[4, 9], 1] = np.nan
    table = ds.tabulate({"imputing": Imputing(0.0, 1.0)}, THETA, y, draws=5)
    assert np.isfinite(table.log_q).all()
    with pytest.warns(UserWarning, match=r"not finite. `y` must be finite; 2 \(4, 9\) of 137 rows are not"):
        ds.tabulate({"imputing": Imputing(0.0, 1.0), "plain": Normal(0.0, 1.0)}, THETA, y, draws=5)
