"""Training and inference speed against sbi, and equal quality, on SLCP with 10,000 simulations.

    OMP_NUM_THREADS=1 python benchmarks/training.py            # everything, about an hour
    OMP_NUM_THREADS=1 python benchmarks/training.py epoch    # or: compile, others, activation, sweep, …

Every ratio is of two times measured in this one run on this one machine. Both sides have one thread and are
measured in seconds of processor time, so that other work on the machine does not count; only the gain of a
second thread is in seconds of the clock. Needs sbi; flowjax is measured if ``FLOWJAX_PYTHON`` names a Python that
has it. Writes ``benchmarks/results/training-<part>.json``.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import drystone as ds
from drystone.training.sweep import Configuration

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
RESULTS = Path(__file__).parent / "results"
MAF = Configuration("maf", transforms=5, units=50, layers=2, activation="tanh", batch_size=50, learning_rate=5e-4)
NSF = replace(MAF, family="nsf", bins=10)


def simulate(n, seed):
    """SLCP: four draws from a bivariate normal whose mean and covariance depend on five parameters."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-3, 3, (n, 5))
    s1, s2, rho = theta[:, 2:3] ** 2, theta[:, 3:4] ** 2, np.tanh(theta[:, 4:])
    e1, e2 = rng.standard_normal((2, n, 4))
    y = np.stack([theta[:, :1] + s1 * e1, theta[:, 1:2] + s2 * (rho * e1 + np.sqrt(1 - rho**2) * e2)], axis=-1)
    return theta.astype(np.float32), y.reshape(n, 8).astype(np.float32)


def sbi_train(configuration, theta, y, epochs, patience, seed=0):
    """Train sbi's estimator and return it with its processor seconds per epoch."""
    from sbi.inference import NPE
    from sbi.neural_nets import posterior_nn

    torch.manual_seed(seed)
    network = posterior_nn(
        configuration.family, hidden_features=configuration.units, num_transforms=configuration.transforms,
        num_blocks=configuration.layers, num_bins=configuration.bins,
        dropout_probability=configuration.dropout,
    )  # fmt: skip
    npe = NPE(density_estimator=network, show_progress_bars=False)
    npe.append_simulations(torch.from_numpy(theta), torch.from_numpy(y))
    with mock.patch("time.time", time.process_time):  # sbi's own record of its epochs, in processor time
        estimator = npe.train(
            training_batch_size=configuration.batch_size, learning_rate=configuration.learning_rate,
            max_num_epochs=epochs, stop_after_epochs=patience,
        )  # fmt: skip
    return estimator, npe.summary["epoch_durations_sec"]


def seconds_per_epoch(configurations, theta, y, epochs=3, repeats=3, workers=1, clock=time.process_time):
    """Seconds per epoch of all members, validation included; starting up is left out by difference."""

    def run(epochs):
        begin = clock()
        ds.train(theta, y, sweep=configurations, epochs=epochs, patience=None, workers=workers, progress=False)
        return clock() - begin

    return (min(run(1 + epochs) for _ in range(repeats)) - min(run(1) for _ in range(repeats))) / epochs


def compile():
    """First use in a fresh process with an empty cache, and again; and that importing compiles nothing."""
    first_use = (
        "import time; import numpy as np; begin = time.process_time(); import drystone as ds, sys;"
        "assert 'numba' not in sys.modules; imported = time.process_time() - begin;"
        "rng = np.random.default_rng(0); theta, y = rng.normal(size=(99, 2)), rng.normal(size=(99, 3));"
        "e = ds.train(theta, y, members=2, family='nsf', epochs=2, workers=1);"
        "e.log_prob(theta, y); e.sample(2, y); print(imported, time.process_time() - begin)"
    )
    with tempfile.TemporaryDirectory() as cache:
        command = ["env", f"NUMBA_CACHE_DIR={cache}", sys.executable, "-c", first_use]
        first, again = ([float(x) for x in subprocess.check_output(command, text=True).split()] for _ in range(2))
    return {"import": again[0], "first use": first[1], "from the cache": again[1]}


def epoch():
    """Seconds per epoch of one member, one thread each."""
    theta, y = simulate(10_000, 0)
    table = {}
    for name, configuration in {
        "maf T=3 H=32 L=2 B=50": replace(MAF, transforms=3, units=32),
        "maf T=5 H=50 L=2 B=50": MAF,
        "maf T=5 H=50 L=2 B=200": replace(MAF, batch_size=200),
        "maf T=5 H=90 L=3 B=50": replace(MAF, units=90, layers=3),
        "maf T=8 H=256 L=4 B=50": replace(MAF, transforms=8, units=256, layers=4),
        "nsf T=5 H=50 L=2 B=50": NSF,
        "nsf T=5 H=50 L=2 B=200": replace(NSF, batch_size=200),
    }.items():
        sbi = min(sbi_train(configuration, theta, y, 2, 100)[1])
        ours = seconds_per_epoch([configuration], theta, y)
        table[name] = {"sbi": sbi, "drystone": ours, "ratio": sbi / ours}
        print(name, table[name], flush=True)
    return table


def zuko_seconds_per_epoch(configuration, theta, y, epochs=3):
    """Processor seconds per epoch of the loop in zuko's tutorial, with validation on a tenth of the rows."""
    import zuko

    torch.manual_seed(0)
    spline = {"bins": configuration.bins} if configuration.family == "nsf" else {}
    flow = {"maf": zuko.flows.MAF, "nsf": zuko.flows.NSF}[configuration.family](
        theta.shape[1], y.shape[1], transforms=configuration.transforms, activation=torch.nn.Tanh,
        hidden_features=[configuration.units] * configuration.layers, **spline,
    )  # fmt: skip
    optimizer = torch.optim.Adam(flow.parameters(), lr=configuration.learning_rate)
    theta, y = (torch.from_numpy((array - array.mean(0)) / array.std(0)) for array in (theta, y))
    n = len(theta) * 9 // 10
    times = []
    for _ in range(epochs):
        begin = time.process_time()
        for rows in torch.randperm(n).split(configuration.batch_size):
            loss = -flow(y[rows]).log_prob(theta[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            flow(y[n:]).log_prob(theta[n:]).mean()
        times.append(time.process_time() - begin)
    return min(times)


def flowjax_seconds_per_epoch(python, configuration, theta, y, epochs=5):
    """Processor seconds per epoch of flowjax's `fit_to_data`, in an environment of its own."""
    options = asdict(configuration) | {"epochs": epochs}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "data.npz"
        np.savez(path, theta=theta, y=y)
        command = [python, Path(__file__).with_name("flowjax_epoch.py"), path, json.dumps(options)]
        one_thread = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
        return json.loads(subprocess.check_output(command, text=True, env=os.environ | one_thread))


def others():
    """Seconds per epoch of one member against zuko and flowjax, one thread each, in this one run."""
    theta, y = simulate(10_000, 0)
    python, table = os.environ.get("FLOWJAX_PYTHON"), {}
    for name, configuration in {
        "maf T=5 H=50 L=2 B=50": MAF,
        "maf T=5 H=50 L=2 B=200": replace(MAF, batch_size=200),
        "nsf T=5 H=50 L=2 B=50": NSF,
        "nsf T=5 H=50 L=2 B=200": replace(NSF, batch_size=200),
    }.items():
        times = {"zuko": zuko_seconds_per_epoch(configuration, theta, y)}
        if python:
            measured = flowjax_seconds_per_epoch(python, configuration, theta, y)
            times |= {"flowjax": measured["seconds"], "flowjax version": measured["version"]}
        ours = seconds_per_epoch([configuration], theta, y)
        ratios = {f"{peer} / drystone": times[peer] / ours for peer in ("zuko", "flowjax") if peer in times}
        table[name] = times | {"drystone": ours} | ratios
        print(name, table[name], flush=True)
    return table


def activation():
    """Seconds per epoch of one member with tanh against ReLU, measured in turn."""
    theta, y = simulate(10_000, 0)
    table = {}
    for name, configuration in {
        "maf T=5 H=50 L=2 B=50": MAF,
        "nsf T=5 H=50 L=2 B=50": NSF,
        "nsf T=5 H=50 L=2 B=100": replace(NSF, batch_size=100),
    }.items():
        tanh, relu = (
            seconds_per_epoch([replace(configuration, activation=kind)], theta, y, epochs=5, repeats=5)
            for kind in ("tanh", "relu")
        )
        table[name] = {"tanh": tanh, "relu": relu, "ratio": tanh / relu}
        print(name, table[name], flush=True)
    return table


def sweep(members=50):
    """Seconds per epoch of all members of the paper's sweep: sbi in turn, ours on one thread and on two."""
    theta, y = simulate(10_000, 0)
    rng = np.random.default_rng(0)
    configurations = [ds.Sweep.paper().draw("maf", rng) for _ in range(members)]
    sbi, ours = 0.0, 0.0
    for configuration in configurations:  # in turn, so that a busy spell of the machine hits both
        sbi += min(sbi_train(configuration, theta, y, 1, 100)[1])
        ours += seconds_per_epoch([configuration], theta, y, epochs=1, repeats=1)
        print(f"{configuration}: {sbi:.1f} {ours:.2f} {sbi / ours:.1f}", flush=True)
    clocked = {"epochs": 1, "repeats": 1, "clock": time.perf_counter}
    one, two = (seconds_per_epoch(configurations, theta, y, workers=n, **clocked) for n in (1, 2))
    times = {"sbi": sbi, "drystone": ours, "clock, one thread": one, "clock, two threads": two}
    return times | {"ratio": sbi / ours, "ratio on two threads": sbi / ours * one / two}


def quality(seeds=6):
    """Mean test log density after early stopping: the same data, sizes and optimiser, paired by seed.

    sbi's side takes minutes per seed and does not change with Drystone: it is kept in its own file.
    """
    theta_test, y_test = simulate(2_000, 12345)
    kept = RESULTS / "training-quality-sbi.json"
    sbi = json.loads(kept.read_text()) if kept.exists() else []
    for seed in range(len(sbi), seeds):
        begin = time.perf_counter()
        estimator, epochs = sbi_train(MAF, *simulate(10_000, seed), 10_000, 20, seed)
        with torch.no_grad():
            log_q = estimator.log_prob(torch.from_numpy(theta_test)[None], torch.from_numpy(y_test)).mean()
        seconds = time.perf_counter() - begin
        sbi.append({"log density": log_q.item(), "seconds": seconds, "epochs": len(epochs)})
        print(sbi[-1], flush=True)
        kept.write_text(json.dumps(sbi, indent=1) + "\n")
    result = {"sbi": sbi}
    for name, activation in {"drystone, tanh as sbi": "tanh", "drystone, relu as by default": "relu"}.items():
        ours = []
        for seed in range(seeds):
            theta, y = simulate(10_000, seed)
            begin = time.perf_counter()
            configuration = replace(MAF, activation=activation)
            ensemble = ds.train(theta, y, sweep=[configuration], seed=seed, workers=1, progress=False)
            seconds = time.perf_counter() - begin
            log_q = float(ensemble.log_prob(theta_test, y_test).mean())
            ours.append({"log density": log_q, "seconds": seconds, "epochs": len(ensemble[0].history.losses)})
        gain = np.array([a["log density"] - b["log density"] for a, b in zip(ours, sbi, strict=True)])
        error = gain.std(ddof=1) / np.sqrt(seeds)
        result[name] = {"members": ours, "mean gain": gain.mean(), "its standard error": error}
    return result


def inference():
    """Draws and densities of one MAF against sbi's estimator of the same size."""
    theta, y = simulate(10_000, 0)
    estimator, _ = sbi_train(MAF, theta, y, 1, 100)
    member = ds.train(theta, y, sweep=[MAF], epochs=1, workers=1, progress=False)[0]
    observed = y[:1000]
    many_theta, many_y = np.tile(theta, (100, 1)), np.tile(y, (100, 1))

    def sbi_log_prob(chunk):
        for t, c in zip(
            torch.from_numpy(many_theta).split(chunk), torch.from_numpy(many_y).split(chunk), strict=True
        ):
            estimator.log_prob(t[None], c)

    def best(function, repeats):
        times = []
        for _ in range(repeats):
            begin = time.process_time()
            function()
            times.append(time.process_time() - begin)
        return min(times)

    with torch.no_grad():
        sbi_sample = best(lambda: estimator.sample((1000,), torch.from_numpy(observed)), 2)
        sbi_density = best(lambda: sbi_log_prob(1_000_000), 2)
        sbi_chunked = best(lambda: sbi_log_prob(10_000), 2)
    sample = best(lambda: member.sample(1000, observed, seed=0), 3)
    density = best(lambda: member.log_prob(many_theta, many_y), 3)
    return {
        "sample 1000 x 1000": {"sbi": sbi_sample, "drystone": sample, "ratio": sbi_sample / sample},
        "log_prob of 1e6 rows": {"sbi": sbi_density, "drystone": density, "ratio": sbi_density / density},
        "the same, sbi in chunks of 10,000": {"sbi": sbi_chunked, "ratio": sbi_chunked / density},
    }


PARTS = {f.__name__: f for f in (compile, epoch, others, activation, sweep, quality, inference)}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        result = {"machine": f"{platform.processor() or platform.machine()}", part: PARTS[part]()}
        print(json.dumps(result, indent=1), flush=True)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"training-{part}.json").write_text(json.dumps(result, indent=1) + "\n")
