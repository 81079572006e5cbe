"""How large a report is and how long it takes to write: ``python benchmarks/report.py``.

Writes ``benchmarks/results/report.json``. Members are Gaussians; size depends on how many there are, not on what.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import drystone as ds
from drystone.comparison import METRICS

RESULTS = Path(__file__).parent / "results" / "report.json"


def table(K, N, d, S, rng):
    """K Gaussian members, shifted and scaled, of the posterior N(y, I)."""
    y = rng.normal(size=(N, d))
    theta = y + rng.normal(size=(N, d))
    centre = y + 0.5 * rng.normal(size=(K, 1, d))
    sd = np.exp(0.3 * rng.normal(size=(K, 1, d)))
    log_q = (-(((theta - centre) / sd) ** 2) / 2 - np.log(sd * np.sqrt(2 * np.pi))).sum(-1)
    draws = centre[:, :, None] + sd[:, :, None] * rng.normal(size=(K, N, S, d))
    return ds.Table(theta, y, log_q=log_q, draws=draws)


def measure(K, N, d, S=50):
    rng = np.random.default_rng(0)
    validation, test = table(K, N + N // 2, d, S, rng).split(1 / 3, seed=0)
    fit = ds.stack(validation)
    # Densities and ranks only: scores of draws take long for many members, and a metric more adds a kilobyte.
    comparison = ds.compare(validation, test, fit, metrics=METRICS[:3])
    facts = pd.DataFrame(rng.random((K, 12)), index=list(test.names), columns=[f"column {i}" for i in range(12)])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        path = ds.report.write(
            f"{folder}/report.html",
            validation=validation,
            test=test,
            fits=fit,
            comparison=comparison,
            members=facts,
        )
        return {"megabytes": path.stat().st_size / 1e6, "processor_seconds": time.process_time() - begun}


if __name__ == "__main__":
    sizes = ((10, 500, 2), (100, 2000, 5))
    results = {f"K={K}, N={N}, d={d}": measure(K, N, d) for K, N, d in sizes}
    for name, result in results.items():
        print(f"{name:<22} {result['megabytes']:.2f} MB, {result['processor_seconds']:.1f} s after ds.compare")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
