"""Whether the checks of one observation keep their promises.

    OMP_NUM_THREADS=1 python benchmarks/observation.py              # all parts, about half an hour
    OMP_NUM_THREADS=1 python benchmarks/observation.py power line   # or: power sir, p_values line, volumes slcp, …

``power``: of "is it like the simulations?" and "do members disagree?" at 100 observations of each of three kinds
that do not come from the simulator (noise three times as large, one entry six standard deviations off, another
simulator, of which SIR has two): the share of p-values below 0.01. ``p_values``: of both questions at 300
simulations, each ten of them with a reference of their own; KS test against uniform. Members are what ``ds.infer``
makes of 3,000 simulations with at most four posteriors and four likelihoods. Statistics were chosen on decaying
counts (``power decay``) and on other seeds of SIR, and judged on the line and on SIR. ``told``: what a
likelihood ratio that is told θ finds of SIR with noise three times as large, in rounded counts. ``coverage``: of
credible sets over 500 repetitions, with good, biased and hopeless members. ``volumes``: of sets of the stacked
posterior against those of uniform weights, paired, on SLCP and Two Moons, with small flows as members. Writes
``benchmarks/results/observation-<part>.json``, with one entry per task.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom, kstest

import drystone as ds
from drystone.tasks.sir import SIR

RESULTS = Path(__file__).parent / "results"
EPOCHS = 20
# Reference of the observations that are no simulations: as many as a run keeps for testing by default.
REFERENCE = 2000
# Simulations and members of each kind of the inferences whose p-values are judged.
SIMULATIONS, MEMBERS = 3000, 4
# Seeds of these inferences, and of the observations of ``power`` and ``p_values``: nothing was chosen on them.
TRAINED, OBSERVED, REPEATED = 31, 35, 36


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

    def others(self, theta, rng):
        """Return an oscillation of three times the noise about the height, with as much noise, (N, 20)."""
        wave = 3 * self.noise * np.cos(np.linspace(-6, 6, 20))
        return {"another simulator": theta[:, :1] + wave + self.noise * rng.normal(size=(len(theta), 20))}


class Epidemic(SIR):
    """The benchmark task SIR, with the mean of its counts."""

    def mean(self, theta):
        """Return the mean of 40 simulations, (N, 10)."""
        rng = np.random.default_rng(0)
        return np.mean([self.simulate(theta, rng) for _ in range(40)], 0)

    def others(self, theta, rng):
        """Return the counts in reversed order, rotated by three days, and counts that grow linearly, (N, 10)."""
        share = rng.uniform(0.02, 0.3, (len(theta), 1))  # of the population, on the last day
        return {
            "another simulator": self.simulate(theta, rng)[:, np.roll(np.arange(10)[::-1], 3)],
            "another simulator: linear growth": rng.binomial(1000, share * np.arange(10) / 9).astype(float),
        }


class Decay(ds.tasks.Task):
    """Counts of a decaying source at twelve times."""

    name, parameters, y_dim = "decay", ("log_size", "rate"), 12
    prior = ds.tasks.Uniform([2, 0.1], [5, 1.5])
    times = np.linspace(0, 4, 12)

    def mean(self, theta):
        """Return the expected counts, (N, 12)."""
        return np.exp(theta[:, :1] - theta[:, 1:] * self.times)

    def simulate(self, theta, rng):
        """Return the counts, (N, 12)."""
        return rng.poisson(self.mean(theta)).astype(float)

    def others(self, theta, rng):
        """Return counts that fall linearly, half as fast as these begin to, (N, 12)."""
        fall = np.maximum(1 - self.times * theta[:, 1:] / 2, 0)
        return {"another simulator": rng.poisson(np.exp(theta[:, :1]) * fall).astype(float)}


TASKS = {task.name: task for task in (Line(), Epidemic(), Decay())}


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


def checked(posterior, x, seed=0):
    """Return the p-values of both checks."""
    checks = (ds.diagnostics.in_distribution, ds.diagnostics.disagreement)
    return [check(posterior, x, seed=seed).p_value for check in checks]


@cache
def inferred(task):
    """Return the stacking and the members of an inference."""
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=SIMULATIONS, seed=TRAINED))
    settings = {"members": MEMBERS, "seed": TRAINED, "workers": 1, "progress": False}
    inference = ds.infer(theta, y, prior=task.prior, parameters=task.parameters, **settings)
    print(task.name, inference.fit.member_weights, flush=True)
    return inference.fit, inference.members


def simulated(task, n, rng):
    """Return parameters and data."""
    theta = task.prior.sample(n, rng)
    return theta, np.asarray(task.simulate(theta, rng), float)


def power(names=("line", "sir"), observations=100):
    """Measure p-values at observations that are no simulations."""
    results = {}
    for task in (TASKS[name] for name in names):
        fit, members = inferred(task)
        rng = np.random.default_rng(OBSERVED)
        theta, y = simulated(task, REFERENCE, rng)
        here = with_reference(fit, members, theta, y)
        theta_o, y_o = simulated(task, observations, rng)
        middle, entry = task.mean(theta_o), np.eye(task.y_dim)[rng.integers(task.y_dim, size=observations)]
        kinds = {
            "noise × 3": middle + 3 * (y_o - middle),
            "one entry + 6 sd": y_o + 6 * y.std(0) * entry,
            **task.others(theta_o, rng),
        }
        results[task.name] = {}
        for kind, data in kinds.items():
            p = np.array([checked(here, x) for x in data])
            results[task.name][kind] = {
                "in distribution < 0.01": (p[:, 0] < 0.01).mean(),
                "disagreement < 0.01": (p[:, 1] < 0.01).mean(),
                "either < 0.01": (p.min(1) < 0.01).mean(),
            }
            print(task.name, kind, results[task.name][kind], flush=True)
    return results


def p_values(names=("line", "sir"), observations=300, per_reference=10, rows=60):
    """Measure p-values at simulations; they are multiples of 1/(n + 1), spread over the step for the KS test."""
    results = {}
    for task in (TASKS[name] for name in names):
        fit, members = inferred(task)
        rng = np.random.default_rng(REPEATED)
        found = []
        for seed in range(observations // per_reference):
            here = with_reference(fit, members, *simulated(task, rows, rng))
            found += [checked(here, x, seed) for x in simulated(task, per_reference, rng)[1]]
            print(task.name, seed, found[-per_reference:], flush=True)
        found = np.array(found)
        spread = found - rng.random(found.shape) / (rows - rows // 2 + 1)
        results[task.name] = {
            "KS p, in distribution": kstest(spread[:, 0], "uniform").pvalue,
            "KS p, disagreement": kstest(spread[:, 1], "uniform").pvalue,
            "at most 0.05 at simulations": (spread < 0.05).mean(0).tolist(),
        }
        print(task.name, json.dumps(results[task.name]), flush=True)
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


def log_counts(y, share, noise):
    """Return log p(y | θ) of rounded counts (…, 10), with noise times ``noise`` about 1000 · share, (…,)."""
    share = np.clip(share, 1e-12, 1 - 1e-12)
    middle = 1000 * share
    if noise == 1:
        return binomial(y, share).sum(-1)
    # y = middle + noise (b − middle) for b ~ binomial, which is taken between integers as it is at them; all that
    # is below 0 counts as 0.
    none = binom.logcdf(np.floor((0.5 + (noise - 1) * middle) / noise), 1000, share)
    b = np.clip(middle + (y - middle) / noise, 0, 1000)
    return np.where(y == 0, none, binomial(b, share) - np.log(noise)).sum(-1)


def binomial(b, share):
    """Return log binomial probabilities of b of 1000, for real b."""
    choose = gammaln(1001) - gammaln(b + 1) - gammaln(1001 - b)
    return choose + b * np.log(share) + (1000 - b) * np.log1p(-share)


def told(names=("sir",), observations=20_000):
    """Measure what a test that is told θ finds of noise × 3: the ratio of smooth densities, at a level of 1 %.

    No bound: a test that knew that three times the noise makes steps of 3 would find more. ``spread`` fills these
    steps, which also puts cases on days that have none.
    """
    results = {}
    for task in (TASKS[name] for name in names):
        rng = np.random.default_rng(41)
        share = task.path(task.prior.sample(observations, rng))
        y = rng.binomial(1000, share).astype(float)
        limit = np.quantile(log_counts(y, share, 3) - log_counts(y, share, 1), 0.99)
        results[task.name] = {}
        for kind, counts in {"rounded": y, "rounded, spread": y + rng.uniform(-0.5, 0.5, y.shape)}.items():
            noisy = np.clip(np.round(1000 * share + 3 * (counts - 1000 * share)), 0, 1000)
            ratio = log_counts(noisy, share, 3) - log_counts(noisy, share, 1)
            results[task.name][f"noise × 3, {kind}"] = (ratio > limit).mean()
        print(task.name, results[task.name], flush=True)
    return results


if __name__ == "__main__":
    parts = {part.__name__: part for part in (coverage, volumes, told, power, p_values)}
    for name in sys.argv[1:2] or parts:
        results = parts[name](tuple(sys.argv[2:])) if sys.argv[2:] else parts[name]()
        path = RESULTS / f"observation-{name}.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps(before | results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
