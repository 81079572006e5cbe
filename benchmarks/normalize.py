"""What normalizing likelihoods costs and how near it comes to the exact posterior.

    OMP_NUM_THREADS=1 python benchmarks/normalize.py            # all parts, about six minutes
    OMP_NUM_THREADS=1 python benchmarks/normalize.py exact      # or: cost, sbi

``exact``: the exact likelihoods of three tasks as members, from the prior alone, against their exact posteriors:
the mean difference of log densities over 500 rows, and C2ST of 4,000 draws at three observations. ``cost``: six
flows on SLCP with three posteriors as proposal: processor time per row and draw, beside that of the bare
evaluations of the same flows at as many points; and per point at which the flows were evaluated, of which there
are more than ``draws``: pilots, and rows where the points were doubled. ``sbi``: processor seconds to tabulate 100
rows of SLCP with sbi's NLE and NRE in its default networks, from the prior alone and with its NPE as proposal.
Writes ``benchmarks/results/normalize-<part>.json``.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import drystone as ds
from drystone.adapters import from_likelihood
from drystone.training.sweep import Configuration

RESULTS = Path(__file__).parent / "results"
TASKS = ("gaussian_mixture", "slcp", "two_moons")


def exact(rows=500, observations=3, draws=4000, error=0.05):
    """Compare densities and draws of normalized exact likelihoods with the exact posteriors."""
    results = {}
    for name in TASKS:
        task = ds.tasks.get(name)
        theta, y = (np.asarray(a) for a in ds.simulate(task, n=rows, seed=1))
        member = ds.normalize({"exact": from_likelihood(task.log_likelihood)}, prior=task.prior, error=error)[
            "exact"
        ]
        conservative, naive = member.bracket(theta, y)
        difference = conservative - task.log_posterior(theta, y)
        accuracy = []
        for n in range(observations):
            reference = task.sample_posterior(y[n], draws, np.random.default_rng(n))
            drawn = member.sample(draws, y[n : n + 1], seed=n)[:, 0]
            accuracy.append(ds.diagnostics.c2st(drawn, reference, seed=n).accuracy.value)
        results[name] = {
            "conservative - exact": difference.mean(),
            "its standard error": difference.std() / rows**0.5,
            "naive - exact": (naive - task.log_posterior(theta, y)).mean(),
            "rows above error": int((naive - conservative > error).sum()),
            "c2st": accuracy,
        }
        print(name, json.dumps(results[name]), flush=True)
    return results


def cost(rows=200, draws=1000, epochs=15):
    """Time the normalization of six flows, and bare evaluations of flows at as many points."""
    task = ds.tasks.get("slcp")
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=5000, seed=1))
    posteriors = ds.train(theta, y, members=3, prior=task.prior, epochs=epochs, progress=False)
    small = Configuration("maf", transforms=4, units=48, activation="tanh", batch_size=100, learning_rate=1e-3)
    flows = ds.train(y, theta, sweep=[small] * 6, epochs=epochs, progress=False)
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=rows, seed=2))
    points = []

    def likelihood(flow):
        def log_likelihood(theta, y):
            points.append(len(theta))
            return flow.log_prob(y, theta)

        return from_likelihood(log_likelihood, normalized_in_y=True)

    likelihoods = [likelihood(flow) for flow in flows]

    def normalized(n):
        members = ds.normalize(likelihoods, prior=task.prior, proposal=posteriors, draws=draws)
        begin = time.process_time()
        for member in members.values():
            member.log_prob(theta[:n], y[:n])
        return time.process_time() - begin

    def bare(n):
        parameters, data = np.repeat(theta[:n], draws, 0), np.repeat(y[:n], draws, 0)
        begin = time.process_time()
        for flow in flows:
            flow.log_prob(data, parameters)
        for posterior in posteriors:
            posterior.log_prob(parameters, data)
        return time.process_time() - begin

    normalized(2), bare(2)  # compiles
    points.clear()
    ours, least = normalized(rows), bare(rows)
    result = {
        "rows": rows,
        "draws": draws,
        "microseconds per row and draw": ours / rows / draws * 1e6,
        "points per row": sum(points) / len(flows) / rows,
        "microseconds per row and point": ours / sum(points) * len(flows) * 1e6,
        "bare evaluations, microseconds": least / rows / draws * 1e6,
        "ratio": ours / least,
    }
    print(json.dumps(result), flush=True)
    return result


def sbi(simulations=3000, epochs=15, rows=100):
    """Time what it takes to tabulate sbi's likelihoods and ratios."""
    import torch
    from sbi.inference import NLE, NPE, NRE
    from sbi.utils import BoxUniform

    def tensor(array):
        return torch.as_tensor(np.asarray(array), dtype=torch.float32)

    task = ds.tasks.get("slcp")
    prior = BoxUniform(tensor(task.prior.support.lower), tensor(task.prior.support.upper))
    theta, y = map(tensor, ds.simulate(task, n=simulations, seed=1))
    members = {}
    for name, trainer in {"NPE": NPE, "NLE": NLE, "NRE": NRE}.items():
        torch.manual_seed(0)
        inference = trainer(prior=prior, show_progress_bars=False)
        inference.append_simulations(theta, y).train(max_num_epochs=epochs)
        members[name] = ds.adapters.from_sbi(inference)
    theta, y = (np.asarray(array, float) for array in ds.simulate(task, n=rows, seed=2))
    result: dict[str, float] = {"rows": rows}
    for name in ("NLE", "NRE"):
        for words, proposal in (("prior alone", None), ("NPE as proposal", members["NPE"])):
            normalized = ds.normalize({name: members[name]}, prior=prior, proposal=proposal)
            begin = time.process_time()
            ds.tabulate(normalized, theta, y)
            result[f"{name}, {words}, seconds"] = time.process_time() - begin
    print(json.dumps(result), flush=True)
    return result


if __name__ == "__main__":
    parts = {"exact": exact, "cost": cost, "sbi": sbi}
    for part in sys.argv[1:] or parts:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"normalize-{part}.json").write_text(json.dumps(parts[part](), indent=1) + "\n")
