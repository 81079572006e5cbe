"""The experiments: that they run, that they continue, and that their parts say what they should."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.problems import CHOSEN_ON, PROBLEMS
from experiments.__main__ import main
from experiments.compression import compress
from experiments.ensembles import Plan, Setting, exact, members, shown, simulations, tables
from experiments.figure1 import examples, histogram, most_varied
from experiments.figure5 import counts_of, panel, regions
from experiments.publish import bring
from experiments.published import C2ST_10K, C2ST_COST, FIGURE3, TABLE1, TABLE2, TABLE3, TABLE4, TOY, published
from experiments.ranks import rank_curves, rank_rows
from experiments.record import Experiment, Record
from experiments.references import references
from experiments.rivals import log_densities, mean, rivals
from experiments.sbi_defaults import Defaults, sbi_prior
from experiments.scoreboard import COVERAGE, printed, scoreboard, shortfalls
from experiments.stored import timed
from experiments.toy import coverage, divergence
from experiments.truth import EXACT, SLOW, digest, exact_log_posterior, inferred, kept
from experiments.truth import table as truth_table
from experiments.truth_c2st import table as c2st_table
from scipy.stats import norm

import drystone as ds
import experiments
from drystone.adapters.sbi import SbiLikelihood
from drystone.training.member import TrainedMember
from experiments import NAMES, PAPER, ablation, experiment, others


@pytest.fixture(scope="module")
def toy_tables():
    return ds.toy.table(400, seed=1), ds.toy.table(500, seed=2)


def test_an_unknown_experiment_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown experiment 'table5'; known: ablation, .*Did you mean 'table"):
        experiment("table5")


def test_the_command_lists_the_experiments(capsys):
    assert main([]) == 0
    listing = capsys.readouterr().out
    for name in (*NAMES, "figure3", "figure4", "figure6", "figure7"):
        assert f"  {name} " in listing


def test_every_table_and_figure_of_the_paper_but_the_diagram_has_an_experiment():
    assert set(PAPER) == {*(f"table{i}" for i in range(1, 5)), *(f"figure{i}" for i in (1, 3, 4, 5, 6, 7))}
    assert {name for names in PAPER.values() for name in names} <= set(NAMES)


def test_a_number_of_the_paper_runs_all_its_experiments(monkeypatch, capsys):
    monkeypatch.setattr("experiments.__main__.run", lambda name, **options: f"{name} {options['seed']}")
    assert main(["figure6", "--seed", "3"]) == 0
    assert main(["table2"]) == 0
    assert capsys.readouterr().out == "epochs 3\nstacking_size 3\ntable2 0\n"


def stub(plan):
    seeds = {str(plan.seed + s): s for s in range(plan.seeds or 3)}
    tasks = {task: seeds for task in ("slcp", "sir") if plan.includes(task)}
    return {"size": 5, "config": {"units": (32, 96)}, "tasks": tasks}


@pytest.fixture
def in_parts(monkeypatch):
    made = Experiment(stub, lambda result: " ".join(result["tasks"]), tasks=("slcp", "sir"), seeds=3)
    monkeypatch.setattr("experiments.experiment", lambda name: made)


def test_parts_of_an_experiment_are_added_to_its_results(tmp_path, in_parts):
    path = tmp_path / "results" / "truth.json"
    part = experiments.run("truth", directory=tmp_path, tasks=["sir"], seeds=2)
    assert (part.table, part.files) == ("sir", (path,))
    stored = {"size": 5, "config": {"units": [32, 96]}, "tasks": {"sir": {"0": 0, "1": 1}}}
    assert Record.load(path).result == part.record.result == stored
    experiments.run("truth", directory=tmp_path, tasks=["sir"], seed=1, seeds=1)
    experiments.run("truth", directory=tmp_path, tasks=["slcp"], seed=2, seeds=1)
    tasks = Record.load(path).result["tasks"]
    assert tasks == {"sir": {"0": 0, "1": 0}, "slcp": {"2": 0}}
    assert list(tasks) == ["slcp", "sir"]  # as the experiment names them
    whole = experiments.run("truth", directory=tmp_path)
    assert (whole.table, whole.files) == ("slcp sir", (path,))
    assert Record.load(path).result["tasks"]["slcp"] == {"0": 0, "1": 1, "2": 2}


def test_parts_with_other_settings_are_not_added(tmp_path, in_parts):
    path = tmp_path / "results" / "truth.json"
    experiments.run("truth", directory=tmp_path, tasks=["sir"], seeds=1)
    record = Record.load(path)
    replace(record, result={**record.result, "size": 6}).save(path)
    with pytest.raises(ValueError, match="the results of truth that are there have other versions, settings or"):
        experiments.run("truth", directory=tmp_path, tasks=["slcp"], seeds=1)
    assert Record.load(path).result["size"] == 6


def test_publishing_adds_to_what_is_there_if_it_was_made_alike(tmp_path, in_parts, monkeypatch):
    monkeypatch.setattr("experiments.publish.RESULTS", tmp_path)
    monkeypatch.setattr("experiments.publish.experiment", experiments.experiment)
    parts = [
        experiments.run("truth", directory=tmp_path / task, tasks=[task], seeds=1).record
        for task in ("sir", "slcp")
    ]
    for part in (*parts, *parts):
        bring("truth", replace(part, seconds=2.0))
    assert set(Record.load(tmp_path / "truth.json").result["tasks"]) == {"sir", "slcp"}
    assert Record.load(tmp_path / "truth.json").seconds == 4.0
    bring("truth", replace(parts[0], result={**parts[0].result, "size": 6}))
    assert set(Record.load(tmp_path / "truth.json").result["tasks"]) == {"sir"}


def test_parts_that_an_experiment_does_not_have_are_refused(tmp_path, in_parts, monkeypatch):
    with pytest.raises(ValueError, match=r"unknown task of truth 'scir'; known: sir, slcp\. Did you mean 'sir'"):
        experiments.run("truth", directory=tmp_path, tasks=["scir"])
    with pytest.raises(ValueError, match="`seeds` must be 1 to 3, as many as truth has; got 4"):
        experiments.run("truth", directory=tmp_path, seeds=4)
    monkeypatch.setattr("experiments.experiment", lambda name: Experiment(stub, str))
    with pytest.raises(ValueError, match="toy is not made of tasks"):
        experiments.run("toy", directory=tmp_path, tasks=["sir"])


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_experiment(name):
    found = experiment(name)
    assert callable(found.run)
    assert callable(found.table)


def run(name, directory):
    command = [sys.executable, "-m", "experiments", name, "--quick", "--directory", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = Record.load(Path(directory, "quick", f"{name}.json"))
    assert record.quick
    assert experiment(name).table(record.result) in done.stdout
    for figure in experiment(name).figures:
        assert Path(directory, "quick", f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    return record


def test_table2_runs_from_one_command(tmp_path):
    record = run("table2", tmp_path)
    assert list(record.result["tasks"]) == ["two_moons", "slcp", "sir"]
    for row in record.result["tasks"].values():
        assert set(row["metrics"]) == {
            "log density",
            "coverage error",
            "coverage error, free weights",
            "interval score",
            "moment error",
        }
        # No density beats the exact posterior's, in the mean.
        assert row["exact"]["gap"]["value"] > -4 * row["exact"]["gap"]["se"]


def test_table1_has_the_papers_cells_and_those_beyond(tmp_path):
    blank = run("table1", tmp_path).result["cells"]
    for form, score in TABLE1:
        assert not blank[form][score]
    assert blank["IntervalAggregation"]["LogScore"]
    assert "| Mixture | § 2.1 | § 2.2 | ✓ |" in experiment("table1").table({"cells": blank})


def test_table3_is_the_papers(tmp_path):
    result = run("table3", tmp_path).result
    printed_ranges = {b: {key: [r.low, r.high] for key, r in row.items()} for b, row in TABLE3.items()}
    assert result == printed_ranges


def test_the_toy_runs_from_one_command(tmp_path):
    weights = run("toy", tmp_path).result["tension"]["weights"]
    for name in weights:
        assert sum(weights[name]) == pytest.approx(1)


@pytest.fixture(scope="module")
def shared_directory(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("toy", "table1", "table2", "table3")])
def test_the_others_run_from_one_command(name, shared_directory):
    run(name, shared_directory)


# ── the shared stage ─────────────────────────────────────────────────────────────────────────────────────────


def test_simulations_of_different_use_are_different_and_reproducible(tmp_path):
    plan, setting = Plan(tmp_path, quick=True), Setting("two_moons")
    drawn = {use: simulations(setting, plan, use)[0] for use in ("training", "stacking", "test")}
    assert [len(theta) for theta in drawn.values()] == [2000, 300, 400]
    assert not np.isin(drawn["stacking"], drawn["training"]).any()
    assert not np.isin(drawn["test"], drawn["stacking"]).any()
    np.testing.assert_array_equal(drawn["test"], simulations(setting, plan, "test")[0])


def test_members_are_trained_once(tmp_path, monkeypatch):
    plan = Plan(tmp_path, quick=True, workers=1)
    setting = Setting("gaussian_mixture", members=2, epochs=2)
    first = members(setting, plan)
    monkeypatch.setattr("drystone.training.engines.job._attempt", None)  # training again would fail
    again = members(setting, plan)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.flow.parameters, b.flow.parameters)


def test_fresh_members_have_simulations_of_their_own_and_are_trained_once(tmp_path, monkeypatch):
    plan = Plan(tmp_path, quick=True, workers=1)
    setting = Setting("gaussian_mixture", members=2, epochs=2, fresh=True)
    first = members(setting, plan)
    assert first.names == ("000-nsf-000", "001-nsf-000")
    shared = members(Setting("gaussian_mixture", members=2, epochs=2, label="shared"), plan)
    # Scalings are those of the data that a member was trained on.
    assert len({tuple(member.scaling.shift) for member in shared}) == 1
    assert len({tuple(member.scaling.shift) for member in (*first, *shared)}) == 3
    monkeypatch.setattr("drystone.training.engines.job._attempt", None)  # training again would fail
    for a, b in zip(first, members(setting, plan), strict=True):
        np.testing.assert_array_equal(a.flow.parameters, b.flow.parameters)


def test_a_member_that_fails_on_one_kind_of_simulations_is_left_out_of_both(tmp_path, monkeypatch):
    plan, setting = Plan(tmp_path, quick=True, workers=1), Setting("gaussian_mixture", members=3, epochs=2)
    sample = TrainedMember.sample

    def failing(member, n, y, *, seed=None):
        if member.name == "nsf-001" and len(y) and (y == simulations(setting, plan, "test")[1][0]).all(1).any():
            raise RuntimeError("out of order")
        return sample(member, n, y, seed=seed)

    monkeypatch.setattr(TrainedMember, "sample", failing)
    with pytest.warns(UserWarning, match="1 of 3 members are left out"):
        validation, test = tables(setting, plan)
    assert validation.names == test.names == ("nsf-000", "nsf-002")


def test_exact_densities_are_the_tasks_and_are_kept(tmp_path, monkeypatch):
    plan, setting = Plan(tmp_path, quick=True), Setting("gaussian_mixture")
    theta, y = simulations(setting, plan, "test")
    log_p = exact(setting, plan)
    np.testing.assert_allclose(log_p, ds.tasks.get("gaussian_mixture").log_posterior(theta[:20], y[:20]))
    monkeypatch.setattr(ds.tasks.GaussianMixture, "log_posterior", None)
    np.testing.assert_array_equal(exact(setting, plan), log_p)


def test_counts_are_shown_with_their_logarithms():
    y = np.array([[0.0, 7.0, 500.0]])
    np.testing.assert_allclose(shown("sir", y), [[0, 0.007, 0.5, 0, np.log(8), np.log(501)]])
    np.testing.assert_array_equal(shown("slcp", y), y)


def test_work_is_timed_when_it_is_done_and_not_when_it_is_continued(tmp_path):
    done = tmp_path / "done"
    _, minutes = timed(done, done.mkdir)
    assert minutes.processor >= 0
    assert 0 < minutes.clock < 1
    assert timed(done, lambda: "again") == ("again", minutes)
    begun = tmp_path / "begun"
    begun.mkdir()
    assert np.isnan(timed(begun, lambda: None)[1]).all()


def test_a_call_is_timed_whichever_experiment_asks_for_it_first(tmp_path, monkeypatch):
    plan, calls = Plan(tmp_path, quick=True), []

    def call(theta, y, prior, *, seed, folder, plan, members):
        (folder / "inference").mkdir(parents=True, exist_ok=True)
        calls.append((len(theta), seed))

    monkeypatch.setattr("experiments.truth.call", call)
    inferred("two_moons", 4, plan, 300)
    inferred("two_moons", 4, plan)
    assert calls == [(300, 4), (1000, 4)]
    folders = ["300-seed4", "seed4"]
    assert sorted(path.name for path in (tmp_path / "truth" / "two_moons-quick").iterdir()) == folders
    for name in folders:
        minutes = np.load(tmp_path / "truth" / "two_moons-quick" / name / "inference-minutes.npy")
        assert np.isfinite(minutes).all()


def test_all_observations_of_a_folder_are_used_and_simulations_without_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y, draws = rng.normal(size=(7, 2)), rng.normal(size=(7, 50, 2))
    np.savez(tmp_path / "two_moons.npz", observation=y, reference_posterior=draws)
    monkeypatch.setenv("DRYSTONE_SBIBM_DATA", str(tmp_path))
    source, pairs = references("two_moons", 20, 0, y[:1])
    assert (source, len(pairs)) == ("sbibm", 7)
    for (at, chosen), its_y, its_draws in zip(pairs, y, draws, strict=True):
        np.testing.assert_array_equal(at, its_y)
        assert chosen.shape == (20, 2)
        assert np.isin(chosen, its_draws).all()
    monkeypatch.delenv("DRYSTONE_SBIBM_DATA")
    source, ((at, drawn),) = references("two_moons", 20, 0, y[:1])
    assert (source, drawn.shape) == ("exact sampler", (20, 2))
    np.testing.assert_array_equal(at, y[0])


@pytest.mark.filterwarnings("ignore:Maximum number of epochs")
def test_the_better_of_sbis_flows_by_validation_loss_is_taken_and_trained_once(tmp_path, monkeypatch):
    task = ds.tasks.get("two_moons")
    theta, y = ds.simulate(task, n=200, seed=1)
    sbi = Defaults(theta, np.exp(y), task.prior, 0, tmp_path, np.log, epochs=1)
    better = sbi.likelihood()
    losses = {family: torch.load(tmp_path / f"NLE-{family}.pt", weights_only=False) for family in ("maf", "nsf")}
    chosen = min(losses.values(), key=lambda one: one["loss"])["estimator"]
    monkeypatch.setattr("sbi.inference.NLE", None)  # training again would fail
    expected = SbiLikelihood(chosen).log_likelihood(theta[:5], y[:5])
    np.testing.assert_allclose(sbi.likelihood().log_likelihood(theta[:5], np.exp(y[:5])), expected, rtol=1e-5)
    np.testing.assert_array_equal(
        better.log_likelihood(theta[:5], y[:5] + 1), sbi.likelihood().log_likelihood(theta[:5], y[:5] + 1)
    )


@pytest.mark.parametrize("prior", [ds.tasks.Uniform([0, 1], [2, 5]), ds.tasks.LogNormal([0, 1], [2, 1])])
def test_priors_are_the_same_for_sbi(prior):
    theta = np.random.default_rng(0).uniform(1, 2, (10, 2))
    theirs = sbi_prior(prior).log_prob(torch.tensor(theta, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(theirs, prior.log_prob(theta), rtol=1e-5)


def test_the_largest_cells_of_the_ablation_are_shown_once_they_have_been_run(tmp_path):
    (tmp_path / "ablation").mkdir()
    for name in ablation.CELLS:
        if name != "lotka_volterra-30000":
            gaps = np.full((len(ablation.METHODS), 30), 2.0)
            gaps[:, 0] = np.nan  # an exact density that is not reliable
            np.save(tmp_path / "ablation" / f"{name}-seed0.npy", gaps)
    result = ablation.EXPERIMENT.run(Plan(tmp_path))
    assert {task: list(sizes) for task, sizes in result["tasks"].items()} == {
        "slcp": ["1000", "3000", "11000", "30000"],
        "lotka_volterra": ["1000", "3000", "11000"],
    }
    assert result["tasks"]["slcp"]["1000"]["rows"] == 29
    assert "| slcp | 30,000 | 2.000 ± 0.000 |" in ablation.table(result)


def test_cells_of_the_ablation_are_shown_by_size_in_whatever_order_they_were_run():
    row = {"rows": 3, "gap": {method: {"value": 1.0, "se": 0.1} for method in ablation.METHODS}}
    result = {"tasks": {"slcp": {n: row for n in ("11000", "1000", "3000")}}}
    sizes = [line.split(" | ")[1] for line in ablation.table(result).splitlines() if "slcp" in line]
    assert sizes == ["1,000", "3,000", "11,000"]
    line = ablation.draw(result).axes[0].get_lines()[0]
    assert np.asarray(line.get_xdata()).tolist() == [1_000, 3_000, 11_000]


def test_problems_of_other_people_had_no_part_in_choosing_settings():
    assert set(others.NAMES) <= set(PROBLEMS)
    assert not set(others.NAMES) & set(CHOSEN_ON)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_best_is_chosen_on_validation_rows_and_uniform_is_the_mean_density(toy_tables):
    validation, test = toy_tables
    chosen = int(np.argmax(validation.log_q.mean(1)))
    log_q = log_densities(rivals(validation), test)
    np.testing.assert_array_equal(log_q["best"], test.log_q[chosen])
    np.testing.assert_allclose(log_q["uniform"], np.log(np.exp(test.log_q).mean(0)))
    np.testing.assert_array_equal(log_q["stacked"], ds.stack(validation).apply(test).log_q)


def test_a_mean_has_the_standard_error_of_a_mean():
    rows = np.array([1.0, 2.0, 6.0])
    assert mean(rows) == {"value": 3.0, "se": pytest.approx(np.std(rows, ddof=1) / np.sqrt(3))}


def test_exact_densities_are_kept_with_the_simulations_that_they_are_of(tmp_path):
    theta, y = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    assert kept(tmp_path / "toy.npz", theta, y) is None
    np.savez(tmp_path / "toy.npz", log_p=[1.0, 2.0, np.nan], digest=digest(theta, y))
    np.testing.assert_array_equal(kept(tmp_path / "toy.npz", theta * (1 + 1e-12), y), [1.0, 2.0, np.nan])
    assert kept(tmp_path / "toy.npz", theta + 1e-3, y) is None


@pytest.mark.parametrize("name", SLOW)
def test_kept_densities_are_those_of_the_task(name):
    task = ds.tasks.get(name)
    drawn = ds.simulate(task, n=1_000, seed=19_999, workers=1)
    theta, y = np.asarray(drawn.theta, float), np.asarray(drawn.y, float)
    log_p = kept(EXACT / f"{name}.npz", theta, y)
    assert log_p is not None
    np.testing.assert_allclose(exact_log_posterior(task, theta[:2], y[:2]), log_p[:2], atol=0.05)


def test_the_truth_table_shows_the_mean_of_the_seeds_and_the_range(tmp_path):
    def measured(gap, minutes):
        return {"rows": 1000, "gap": {"refitted": {"value": gap, "se": 0.01}}, "minutes": {"processor": minutes}}

    text = truth_table({"tasks": {"slcp": {"0": measured(0.5, 3.0), "1": measured(0.6, np.nan)}}})
    # The seeds differ by more than the rows explain: sd/√2 = 0.05.
    assert "| slcp | 0.550 ± 0.050 | 1000 |\n|  | 0.500 … 0.600 |  |" in text
    assert "| slcp | 3.0 |" in text  # minutes of the seed that was not interrupted
    # What stands beside the call is measured with the first seed alone.
    first = measured(0.5, 3.0)
    first["gap"]["distilled"] = {"value": 1.2, "se": 0.02}
    text = truth_table(
        {"tasks": {"sir": {"1": measured(0.3, 1.0)}, "slcp": {"0": first, "1": measured(0.6, 1.0)}}}
    )
    assert "| sir | 0.300 ± 0.010 |  | 1000 |" in text
    assert "| slcp | 0.550 ± 0.050 | 1.200 ± 0.020 | 1000 |\n|  | 0.500 … 0.600 |  |  |" in text
    single = truth_table({"tasks": {"slcp": {"0": measured(0.5, np.nan)}}})
    assert "| slcp | 0.500 ± 0.010 | 1000 |" in single
    assert "| slcp | – |" in single


def test_published_accuracies_stand_beside_ours_with_what_they_take():
    text = c2st_table({"tasks": {"slcp": {"everything": [0.6, 0.7]}}})
    assert "| slcp | 0.650 ± 0.050 | 2 | 0.901 | 0.771 |" in text
    assert text.endswith("| a transformer on a GPU | a transformer on a GPU |")
    assert C2ST_COST.keys() == C2ST_10K.keys()


def test_the_scoreboard_agrees_with_a_count(toy_tables):
    validation, test = toy_tables
    board = scoreboard(validation, test)
    fit = ds.stack(validation)
    assert board["log density"]["stacked"]["value"] == pytest.approx(fit.apply(test).log_q.mean())
    form, score = ds.IntervalAggregation(0.1, shared=True, weights="auto"), ds.IntervalScore(0.1)
    lower, upper = ds.stack(validation, form, score).apply(test).interval(0.1).transpose(2, 0, 1)
    covered = ((lower <= test.theta) & (test.theta <= upper)).mean()
    assert board["coverage error"]["stacked"]["value"] == pytest.approx(abs(covered - 0.9))
    lower, upper = (test.quantile(level).mean(0) for level in (0.05, 0.95))
    covered = ((lower <= test.theta) & (test.theta <= upper)).mean()
    for name in ("coverage error", "coverage error, free weights"):
        assert board[name]["uniform"]["value"] == pytest.approx(abs(covered - 0.9))


def test_coverage_of_posteriors_is_judged_by_the_ends_of_their_intervals():
    test = ds.toy.table(4000, seed=5, draws=400)
    weights = torch.ones(1, dtype=torch.float64)
    narrow = ds.Mixture().combine({"weights": weights}, test.select(members=["narrow"]))
    expected = 0.9 - (1 - 2 * norm.sf(norm.ppf(0.95) * ds.toy.MEMBERS["narrow"].sd))
    assert float(COVERAGE.score(narrow)) == pytest.approx(expected, abs=0.03)


def test_shortfalls_are_named():
    def cell(gain, over_uniform):
        stacked = {"gain": gain, "gain_se": 0.1, "gain_over_uniform": over_uniform, "gain_over_uniform_se": 0.1}
        return {"metrics": {"moment error": {"stacked": stacked}}}

    worse = shortfalls({"tasks": {"slcp": cell(-0.25, 0.3), "sir": cell(0.2, -0.4)}})
    assert "slcp, moment error, against best (−0.25 ± 0.10)" in worse
    assert "sir, moment error, against uniform (−0.40 ± 0.10)" in worse
    assert "In no cell" in shortfalls({"tasks": {"slcp": cell(-0.05, 0.3)}})


def test_the_papers_numbers_are_those_it_prints_and_no_others():
    assert published("nsf", "lotka_volterra", "log density")["stacked"] == (13.47, 0.02, 2)
    assert published("maf", "lotka_volterra", "log density") == {}
    assert printed("maf", "simbig", "log density") == "15.6 / 16.7 / 17.0"
    assert printed("nsf", "slcp", "moment error") == "0.86 ± 0.02 / 0.99 ± 0.01 / 0.75 ± 0.01"
    assert printed("nsf", "slcp", "coverage error") == ""


def test_the_papers_stack_is_never_worse_than_its_best_member_or_uniform_weights():
    """A misprint of ours in the long tables would most likely show here."""
    for table in (TABLE2, TABLE4):
        for metrics in table.values():
            for metric, row in metrics.items():
                sign = 1 if metric == "log density" else -1
                rivals_best = max(sign * row["best"].value, sign * row["uniform"].value)
                assert sign * row["stacked"].value >= rivals_best


def test_the_toy_is_the_papers():
    assert [(m.shift, m.sd) for m in ds.toy.MEMBERS.values()] == list(TOY.members)
    coverages = [coverage(member) for member in ds.toy.MEMBERS.values()]
    assert (round(min(coverages), 2), round(max(coverages), 2)) == FIGURE3.coverage
    shifts = [member.shift for member in ds.toy.MEMBERS.values()]
    assert (max(shifts), min(shifts)) == FIGURE3.bias
    assert [divergence(weights) for weights in np.eye(4)] == pytest.approx([0.5] * 4, abs=0.02)


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_members_of_four_kinds_are_told_apart_by_their_ranks():
    rng = np.random.default_rng(0)
    z = rng.normal(size=4000)
    # Posteriors N(shift, sd²) of a truth N(0, 1): the calibrated one is none of the four.
    kinds = {"calibrated": (0, 1), "wide": (0, 2), "up": (0.7, 1), "narrow": (0, 0.5), "down": (-0.7, 1)}
    rank = np.array([norm.cdf(z, shift, sd) for shift, sd in kinds.values()])
    assert most_varied(np.stack([np.tile(norm.cdf(z), (len(kinds), 1)), rank], axis=2)) == 1
    found = {kind: list(kinds)[k] for kind, k in examples(rank).items()}
    assert found == {
        "biased upwards": "up",
        "biased downwards": "down",
        "over-confident": "narrow",
        "under-confident": "wide",
    }


def test_bins_of_ranks_hold_equally_many_of_the_ranks_that_draws_can_give():
    assert histogram(np.arange(100) / 99) == [10] * 10  # the share of 99 draws below the truth


def test_a_region_holds_its_share_of_the_mass():
    x = np.linspace(-4, 4, 201)
    density = norm.pdf(x[:, None]) * norm.pdf(x)
    outer, inner = regions(density)
    for level, share in ((outer, 0.9), (inner, 0.5)):
        assert density[density >= level].sum() / density.sum() == pytest.approx(share, abs=0.01)


def test_histograms_of_a_panel_are_written_as_lines_and_read_back():
    draws = np.random.default_rng(0).normal(size=(5000, 2)) * [1, 10]
    found = panel("two_moons", ("a", "b"), {"exact": draws}, np.array([0.5, 5.0]))
    counts = counts_of(found["counts"]["exact"])
    assert 0.98 * len(draws) < counts.sum() <= len(draws)
    (low, high), _ = found["window"]
    centres = np.linspace(low, high, 2 * len(counts) + 1)[1::2]
    # The first parameter is that of the rows.
    assert np.sqrt(counts.sum(1) @ centres**2 / counts.sum()) == pytest.approx(1, abs=0.05)


def test_rank_curves_of_calibrated_members_are_flat_and_distances_near_the_floor():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(2000, 1))
    theta = y + rng.normal(size=y.shape)
    draws = y[:, None] + rng.normal(size=(2, 2000, 300, 1))
    log_q = np.tile(norm.logpdf(theta[:, 0], y[:, 0]), (2, 1))
    table = ds.Table(theta, y, log_q=log_q, draws=draws)
    validation, test = table.split(0.5)
    curves = rank_curves(validation, test)
    assert curves["N"] == 1000
    for method in ("best", "uniform", "stacked", "log + rank"):
        # Kolmogorov–Smirnov: 1.95 / √N is exceeded once in a thousand.
        assert np.abs(curves["curves"][method]["theta_0"]).max() < 1.95 / np.sqrt(1000)
    rows = rank_rows(validation, test)
    assert rows["best"]["value"] < 10 * rows["floor"]


def test_a_record_is_read_back(tmp_path):
    record = Record("toy", False, 3, 1.5, {"drystone": "0"}, {"a": [1.0, 2.0]})
    record.save(tmp_path / "toy.json")
    assert Record.load(tmp_path / "toy.json") == record
    assert json.loads((tmp_path / "toy.json").read_text())["seed"] == 3


# ── compression ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_compression_shows_training_rows_no_more_than_new_ones():
    """With 40 noisy summaries and 400 rows a network overfits; its predictions of unseen rows do not."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(800, 2))
    y = theta @ rng.normal(size=(2, 40)) + 3 * rng.normal(size=(800, 40))
    fitted = compress(theta[:400], y[:400], None, components=3, folds=4, seed=0)
    assert fitted.training.shape == (400, 5)
    new = fitted(y[400:])
    assert new.shape == (400, 5)

    def error(shown_rows, truth):
        return ((shown_rows[:, :2] * theta[:400].std(0) + theta[:400].mean(0) - truth) ** 2).mean()

    training, fresh = error(fitted.training, theta[:400]), error(new, theta[400:])
    assert fresh < 0.7  # it has learnt: the prior's variance is 1
    assert training > 0.9 * fresh  # and does not show the training rows in a better light
    again = compress(theta[:400], y[:400], None, components=3, folds=4, seed=0)
    np.testing.assert_array_equal(again(y[400:]), new)
