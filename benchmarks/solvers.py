"""Speed of the solvers, as ratios measured in one run: `python benchmarks/solvers.py`.

Each comparison is on the same problem, to the same or a better objective, on one thread. Times are the least of
several repetitions. Results go to benchmarks/results/solvers.json, from which the README's table is made.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import platform
import resource
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

import drystone as ds
from drystone.solvers.log_score import log_loss
from drystone.solvers.quantile_regression import quantile_regression
from drystone.solvers.rank import RankDistance

RESULTS = Path(__file__).parent / "results" / "solvers.json"


def least_time(run, repetitions=3):
    times, answer = [], None
    for _ in range(repetitions):
        begun = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - begun)
    return min(times), answer


def members(N, K, d=2, S=200, seed=0):
    """Gaussian members of a Gaussian posterior: shifted, scaled, and noisy in their own ways."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, d))
    theta = y + rng.normal(size=(N, d))
    centre = y + 0.5 * rng.normal(size=(K, 1, d)) + 0.4 * rng.normal(size=(K, N, d))
    sd = np.exp(0.4 * rng.normal(size=(K, 1, d)))
    log_q = (-(((theta - centre) / sd) ** 2) / 2 - np.log(sd)).sum(-1)
    draws = None
    if S:
        draws = (centre[:, :, None] + sd[:, :, None] * rng.standard_normal((K, N, S, d))).astype(np.float32)
    return ds.Table(theta, y, log_q=log_q, draws=draws)


def log_score_against_slsqp(N, K, derivatives):
    """SciPy's SLSQP on the same loss, with our exact vectorised gradient or with its own finite differences."""
    table = members(N, K, S=0)
    ours, fit = least_time(lambda: ds.stack(table), 20)
    problem = log_loss(table)

    def slsqp(ftol):
        constraint = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(K)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return minimize(
                lambda w: problem.value(np.maximum(w, 1e-15)),
                np.full(K, 1 / K),
                jac=(lambda w: problem.gradient(np.maximum(w, 1e-15))) if derivatives == "exact" else None,
                bounds=[(0, 1)] * K,
                constraints=constraint,
                method="SLSQP",
                options={"maxiter": 1000, "ftol": ftol},
            )

    # SLSQP's own tolerance is on the change of the loss; tighten it until the loss is as good as ours.
    for ftol in (1e-6, 1e-8, 1e-10, 1e-12, 1e-14):
        theirs, other = least_time(lambda ftol=ftol: slsqp(ftol), 20)
        weights = np.maximum(other.x, 0)
        weights /= weights.sum()
        excess = -table.row_weights @ logsumexp(table.log_q, axis=0, b=weights[:, None]) - fit.loss
        if excess <= 1e-8:
            break
    return {
        "what": f"log score, N={N}, K={K}: SciPy SLSQP with {derivatives} derivatives / ours",
        "ours_seconds": ours,
        "theirs_seconds": theirs,
        "ratio": theirs / ours,
        "our_gap": fit.gap,
        "their_excess_loss": float(excess),
        "their_ftol": ftol,
    }


def log_score_in_passes(N, K):
    """How many passes w ↦ wL, u ↦ Lu over the densities the whole solution costs."""
    table = members(N, K, S=0)
    ours, fit = least_time(lambda: ds.stack(table), 2)
    L, w = np.exp(table.log_q - table.log_q.max(0)), np.full(K, 1 / K)

    def passes():
        for _ in range(10):
            _ = L @ (1 / (w @ L))

    ten, _ = least_time(passes)
    return {
        "what": f"log score, N={N}, K={K} to gap 1e-8, in passes over the densities (limit 400)",
        "ours_seconds": ours,
        "ratio": ours / (ten / 10),
        "our_gap": fit.gap,
    }


def rank_against_adam(N, K):
    """2000 Adam steps on the smoothed grid objective, softmax weights, as the authors' code does."""
    table = members(N, K)
    rank = torch.as_tensor(table.rank)  # derived before timing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, fit = least_time(lambda: ds.stack(table, score=ds.RankCvM()))

    def adam():
        logits = torch.zeros(K, dtype=torch.float64, requires_grad=True)
        grid = torch.linspace(0, 1, round(N**0.5), dtype=torch.float64)
        optimiser = torch.optim.Adam([logits], 0.05)
        for _ in range(2000):
            optimiser.zero_grad()
            r = torch.tensordot(torch.softmax(logits, 0), rank, 1)
            share = torch.sigmoid(2 * (grid[:, None, None] - r) / 0.01).mean(1)
            ((share - grid[:, None]) ** 2).mean().backward()
            optimiser.step()
        return torch.softmax(logits, 0).detach().numpy()

    theirs, weights = least_time(adam, 1)
    distance = RankDistance(table.rank, table.row_weights).value(weights)
    return {
        "what": f"rank calibration, N={N}, K={K}: 2000 Adam steps / ours",
        "ours_seconds": ours,
        "theirs_seconds": theirs,
        "ratio": theirs / ours,
        "our_D": fit.loss,
        "their_D": distance,
    }


def interval_against_highs(N, K):
    """One end of the intervals: HiGHS on the same linear programme."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=N)
    X = 0.8 * theta[:, None] - 1.5 + 0.3 * rng.normal(size=(N, K)) + 0.3 * rng.normal(size=K)
    a, tau = np.full(N, 1 / N), 0.05
    ours, fit = least_time(lambda: quantile_regression(X, theta, tau, a))

    def highs():
        cost = np.r_[np.zeros(K), tau * a, (1 - tau) * a]
        equations = sparse.hstack([sparse.csr_matrix(X), sparse.eye(N), -sparse.eye(N)]).tocsr()
        return linprog(cost, A_eq=equations, b_eq=theta, bounds=[(None, None)] * K + [(0, None)] * (2 * N)).fun

    theirs, optimum = least_time(highs, 1)
    return {
        "what": f"interval end, N={N}, K={K}: HiGHS / ours",
        "ours_seconds": ours,
        "theirs_seconds": theirs,
        "ratio": theirs / ours,
        "relative_difference": (fit.loss - optimum) / optimum,
    }


def memory(N, K):
    """Peak memory of stacking by log score and by rank, against the size of what the table holds for it."""
    log_q = members(N, K, S=0).log_q
    rank = np.random.default_rng(0).random((K, N, 2))
    table = ds.Table(np.zeros((N, 2)), log_q=log_q, rank=rank)
    peaks = []
    for score, size in ((ds.LogScore(), log_q.nbytes), (ds.RankCvM(), rank.nbytes + log_q.nbytes)):
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds.stack(table, score=score)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peaks.append((peak + size) / size)
    return {"what": f"memory over the table's, log and rank, N={N}, K={K} (limit 3)", "ratio": max(peaks)}


def main():
    torch.set_num_threads(1)
    results = []
    for measure in (
        lambda: log_score_against_slsqp(1000, 50, "numerical"),
        lambda: log_score_against_slsqp(1000, 100, "numerical"),
        lambda: log_score_against_slsqp(1000, 50, "exact"),
        lambda: log_score_against_slsqp(1000, 100, "exact"),
        lambda: log_score_in_passes(10_000, 1000),
        lambda: rank_against_adam(1000, 50),
        lambda: interval_against_highs(1000, 50),
        lambda: interval_against_highs(10_000, 100),
        lambda: memory(10_000, 200),
    ):
        results.append(measure())
        print(json.dumps(results[-1]), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    machine |= {"numpy": np.__version__, "torch": torch.__version__, "drystone": ds.__version__}
    machine["peak_MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    RESULTS.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
