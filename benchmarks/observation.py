"""Whether the checks of one observation keep their promises.

    OMP_NUM_THREADS=1 python benchmarks/observation.py                 # all parts, about ten minutes
    OMP_NUM_THREADS=1 python benchmarks/observation.py p_values line   # or: p_values sir, volumes slcp, coverage …

``p_values``: of "is it like the simulations?" and "do members disagree?", over 300 simulations of two tasks (KS
test against uniform), each ten of them with a reference of their own; and at 100 observations of each of three
kinds that do not come from the simulator (noise three times as large, one entry six standard deviations off,
another simulator): the share below 0.01. ``coverage``: of credible sets over 500 repetitions, with good, biased
and hopeless members. ``volumes``: of sets of the stacked posterior against those of uniform weights, paired, on
SLCP and Two Moons. Members are small flows. Writes
``benchmarks/results/observation-<part>.json``, with one entry per task.
"""

import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import kstest

import drystone as ds
from drystone.tasks.sir import SIR

RESULTS = Path(__file__).parent / "results"
EPOCHS = 20
# Reference of the observations that are no simulations: as many as a run keeps for testing by default.
REFERENCE = 2000


class Line(ds.tasks.Task):
    """A straight line through twenty noisy points."""

    name, parameters, y_dim = "line", ("height", "slope"), 20
    prior = ds.tasks.Uniform([-1, -1], [1, 1])
    noise = 0.3

    def mean(self, theta):
        """Return the points without noise, (N, 20)."""
        return theta[:, :1] + theta[:, 1:] * np.linspace(-1, 1, 20)

    def simulate(self, theta, rng):
        """Return the points with noise, (N, 20)."""
        return self.mean(theta) + self.noise * rng.normal(size=(len(theta), 20))

    def another(self, theta, rng):
        """Return an oscillation of three times the noise about the height, with as much noise, (N, 20)."""
        wave = 3 * self.noise * np.cos(np.linspace(-6, 6, 20))
        return theta[:, :1] + wave + self.noise * rng.normal(size=(len(theta), 20))


class Epidemic(SIR):
    """The benchmark task SIR, with the mean of its counts."""

    def mean(self, theta):
        """Return the mean of 40 simulations, (N, 10)."""
        rng = np.random.default_rng(0)
        return np.mean([self.simulate(theta, rng) for _ in range(40)], 0)

    def another(self, theta, rng):
        """Return the counts in reversed order, rotated by three days, (N, 10)."""
        return self.simulate(theta, rng)[:, np.roll(np.arange(10)[::-1], 3)]


def stacked(task, seed, members=4, n=3000):
    """Return small flows and their stacking, with the simulations that it was fitted to."""
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=n, seed=seed))
    flows = ds.train(theta, y, members=members, prior=task.prior, epochs=EPOCHS, progress=False, seed=seed)
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=1000, seed=seed + 1))
    table = ds.tabulate(flows, theta, y, draws=50, parameters=list(task.parameters))
    return flows, ds.stack(table)


def with_reference(fit, flows, theta, y):
    """Return the posterior with reference rows, of which only θ and y are used."""
    table = ds.Table(
        theta, y=y, log_q=np.zeros((len(fit.names), len(y))), names=fit.names, parameters=fit.parameters
    )
    return fit.posterior(flows, reference=table)


def p_values(names=("line", "sir"), observations=300, per_reference=10, rows=300, spoiled=100):
    """Measure p-values at simulations, and at observations that are none."""
    results = {}
    for task in (task for task in (Line(), Epidemic()) if task.name in names):
        flows, fit = stacked(task, 1)
        rng = np.random.default_rng(5)

        def simulated(n, task=task, rng=rng):
            theta = task.prior.sample(n, rng)
            return theta, np.asarray(task.simulate(theta, rng), float)

        found = []
        for seed in range(observations // per_reference):
            here = with_reference(fit, flows, *simulated(rows))
            for x in simulated(per_reference)[1]:
                checks = (ds.diagnostics.in_distribution, ds.diagnostics.disagreement)
                found.append([check(here, x, seed=seed).p_value for check in checks])
        found = np.array(found)
        result = {
            "KS p, in distribution": kstest(found[:, 0], "uniform").pvalue,
            "KS p, disagreement": kstest(found[:, 1], "uniform").pvalue,
            "below 0.05 at simulations": (found < 0.05).mean(0).tolist(),
        }
        theta, y = simulated(REFERENCE)
        here = with_reference(fit, flows, theta, y)
        theta_o, y_o = simulated(spoiled)
        middle, entry = task.mean(theta_o), np.eye(task.y_dim)[rng.integers(task.y_dim, size=spoiled)]
        kinds = {
            "noise × 3": middle + 3 * (y_o - middle),
            "one entry + 6 sd": y_o + 6 * y.std(0) * entry,
            "another simulator": task.another(theta_o, rng),
        }
        for kind, data in kinds.items():
            p = np.array(
                [
                    [
                        ds.diagnostics.in_distribution(here, x).p_value,
                        ds.diagnostics.disagreement(here, x).p_value,
                    ]
                    for x in data
                ]
            )
            result[kind] = {
                "in distribution < 0.01": (p[:, 0] < 0.01).mean(),
                "disagreement < 0.01": (p[:, 1] < 0.01).mean(),
                "either < 0.01": (p.min(1) < 0.01).mean(),
            }
        results[task.name] = result
        print(task.name, json.dumps(result, ensure_ascii=False), flush=True)
    return results


def coverage(names=("good", "biased", "hopeless"), repetitions=500, rows=99):
    """Measure how often sets contain the truth: a new reference and a new observation each time."""
    gaussian = ds.toy.Gaussian
    kinds = {
        "good": {"a": gaussian(0.1, 1.05), "b": gaussian(-0.1, 0.95)},
        "biased": {"a": gaussian(1.5, 0.5), "b": gaussian(1.0, 0.4)},
        "hopeless": {"a": gaussian(30.0, 0.1), "b": gaussian(-40.0, 0.1)},
    }
    results = {}
    for kind, members in ((kind, kinds[kind]) for kind in names):
        fit = ds.Stacking.uniform(list(members), parameters=["theta"])
        hits = {alpha: 0 for alpha in (0.05, 0.1, 0.3)}
        for seed in range(repetitions):
            theta, y = ds.toy.simulate(rows + 1, seed)
            here = with_reference(fit, members, theta[1:], y[1:])
            for alpha in hits:
                hits[alpha] += int(here.credible_set(y[0], alpha, seed=seed).contains(theta[0])[0])
        results[kind] = {}
        for alpha, count in hits.items():
            error = float(np.sqrt(alpha * (1 - alpha) / repetitions))
            holds = bool(count / repetitions >= 1 - alpha - 2 * error)
            results[kind][f"alpha {alpha}"] = {"coverage": count / repetitions, "se": error, "holds": holds}
        print(kind, json.dumps(results[kind]), flush=True)
    return results


def volumes(names=("slcp", "two_moons"), observations=40):
    """Compare log volumes of the sets of fitted and of uniform weights at the same observations."""
    results = {}
    for name in names:
        task = ds.tasks.get(name)
        flows, fit = stacked(task, 11, members=8)
        theta, y = (np.asarray(a) for a in ds.simulate(task, n=300, seed=13))
        _, y_o = (np.asarray(a) for a in ds.simulate(task, n=observations, seed=14))
        uniform = ds.Stacking.uniform(fit.names, parameters=fit.parameters)
        sets = [with_reference(each, flows, theta, y) for each in (fit, uniform)]
        volume = np.array([[here.credible_set(x, 0.1).volume.value for here in sets] for x in y_o])
        difference = np.log(volume[:, 1]) - np.log(volume[:, 0])
        results[name] = {
            "log volume, uniform less stacked": difference.mean(),
            "its standard error": difference.std(ddof=1) / np.sqrt(observations),
            "mean volume, stacked and uniform": volume.mean(0).tolist(),
        }
        print(name, json.dumps(results[name]), flush=True)
    return results


if __name__ == "__main__":
    parts = {part.__name__: part for part in (coverage, volumes, p_values)}
    for name in sys.argv[1:2] or parts:
        results = parts[name](tuple(sys.argv[2:])) if sys.argv[2:] else parts[name]()
        path = RESULTS / f"observation-{name}.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(before | results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
