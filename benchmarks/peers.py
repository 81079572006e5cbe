"""Weights by log score against the strongest peers, in processor time: `python benchmarks/peers.py`.

R's mixsqp (Debian's r-cran-mixsqp and libopenblas0-serial, without which R is several times slower; left out
where there is no Rscript), Clarabel with exponential cones (pip install clarabel), EM, and SciPy's SLSQP with our
exact gradient, on the same densities and one thread. Each has its own settings and tolerance; what it reached is
given as the excess of its loss over ours. Time is processor time per call, the least of several repetitions,
without start-up and reading. Results go to benchmarks/results/peers.json.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import shutil
import subprocess
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

import drystone as ds
from drystone.solvers.log_score import log_loss
from solvers import members

RESULTS = Path(__file__).parent / "results" / "peers.json"
MIXSQP = """
arguments <- commandArgs(TRUE)
N <- as.integer(arguments[2]); K <- as.integer(arguments[3]); repetitions <- as.integer(arguments[4])
L <- matrix(readBin(arguments[1], "double", N * K), N, K)
library(mixsqp)
seconds <- Inf
for (i in seq_len(repetitions)) {
  begun <- proc.time(); fit <- mixsqp(L, control = list(verbose = FALSE)); spent <- proc.time() - begun
  seconds <- min(seconds, spent[["user.self"]] + spent[["sys.self"]])
}
writeBin(c(seconds, fit$x), arguments[5])
"""


def processor_time(run, repetitions):
    """Return the least processor time of a call, and its last answer."""
    times, answer = [], None
    for _ in range(repetitions):
        begun = time.process_time()
        answer = run()
        times.append(time.process_time() - begun)
    return min(times), answer


def mixsqp(table, repetitions):
    """Run R's mixsqp in a process of its own, which times itself."""
    N, K = table.N, table.K
    with tempfile.TemporaryDirectory() as folder:
        script, matrix, out = (Path(folder) / name for name in ("mixsqp.R", "L.bin", "out.bin"))
        script.write_text(MIXSQP)
        np.exp(table.log_q - table.log_q.max(0)).tofile(matrix)  # (K, N) by rows is (N, K) by columns
        subprocess.run(["Rscript", script, matrix, str(N), str(K), str(repetitions), out], check=True)
        seconds, *weights = np.fromfile(out)
    return seconds, np.array(weights)


def clarabel(table, repetitions):
    """Maximise Σ t_n subject to (t_n, 1, L_n·w) in the exponential cone, w on the simplex."""
    import clarabel as solver

    N, K = table.N, table.K
    L = np.exp(table.log_q - table.log_q.max(0)).T
    # Variables (w, t). Rows: Σw = 1; w ≥ 0; for each n the cone of (t_n, 1, L_n·w).
    simplex = sparse.hstack([np.ones((1, K)), sparse.csc_matrix((1, N))])
    positive = sparse.hstack([-sparse.identity(K), sparse.csc_matrix((K, N))])
    cones = sparse.lil_matrix((3 * N, K + N))
    cones[0::3, K:] = -sparse.identity(N)
    cones[2::3, :K] = -L
    A = sparse.vstack([simplex, positive, cones]).tocsc()
    b = np.concatenate([[1.0], np.zeros(K), np.tile([0.0, 1.0, 0.0], N)])
    q = np.concatenate([np.zeros(K), np.full(N, -1 / N)])
    kinds = [solver.ZeroConeT(1), solver.NonnegativeConeT(K), *([solver.ExponentialConeT()] * N)]
    settings = solver.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    P = sparse.csc_matrix((K + N, K + N))
    seconds, answer = processor_time(
        lambda: solver.DefaultSolver(P, q, A, b, kinds, settings).solve(), repetitions
    )
    return seconds, np.array(answer.x[:K])


def expectation_maximization(table, repetitions, steps=1000):
    """Multiply each weight by its mean responsibility, a thousand times."""
    L = np.exp(table.log_q - table.log_q.max(0))

    def run():
        w = np.full(table.K, 1 / table.K)
        for _ in range(steps):
            w *= L @ (1 / (w @ L)) / table.N
        return w

    return processor_time(run, repetitions)


def slsqp(table, repetitions):
    """Run SciPy's SLSQP with our exact gradient."""
    problem, K = log_loss(table), table.K

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return minimize(
                lambda w: problem.value(np.maximum(w, 1e-15)),
                np.full(K, 1 / K),
                jac=lambda w: problem.gradient(np.maximum(w, 1e-15)),
                bounds=[(0, 1)] * K,
                constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(K)},
                method="SLSQP",
                options={"maxiter": 1000, "ftol": 1e-12},
            ).x

    return processor_time(run, repetitions)


def peers(N, K):
    """Return those that are installed and fit the size."""
    candidates = {"EM, 1000 steps": expectation_maximization}
    if shutil.which("Rscript"):
        candidates["mixsqp (R)"] = mixsqp
    if K <= 100:
        candidates["SLSQP, our gradient"] = slsqp
        if find_spec("clarabel"):
            candidates["Clarabel"] = clarabel
    return candidates


def main():
    rows = []
    for N, K, repetitions in ((1000, 50, 20), (1000, 100, 10), (10_000, 1000, 1)):
        table = members(N, K, S=0)
        ours, fit = processor_time(lambda table=table: ds.stack(table), repetitions)
        for name, peer in peers(N, K).items():
            theirs, weights = peer(table, repetitions)
            weights = np.maximum(weights, 0) / np.maximum(weights, 0).sum()
            excess = float(-logsumexp(table.log_q, axis=0, b=weights[:, None]).mean() - fit.loss)
            row = {"N": N, "K": K, "peer": name, "ratio": float(theirs / ours), "ours": ours}
            rows.append(row | {"excess": excess, "gap": fit.gap})
            print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
