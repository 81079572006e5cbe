"""Digests of weights, losses, members and tables of fixed seeds, to hold one version against another.

Rounding differs between processors, so the digests are not kept: make them with one version and compare them with
another on the same machine.

    python benchmarks/same_bits.py write before.json
    python benchmarks/same_bits.py compare before.json

Only public names are used, with every setting spelled out, so that a new default changes nothing here.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import drystone as ds

FORMS = {
    "mixture": ds.Mixture(concentration=1.0),
    "dirichlet": ds.Mixture(concentration=1.2),
    "local": ds.LocalMixture(hidden=(8,), epochs=20),
    "sample-scalar": ds.SampleAggregation(structure="scalar"),
    "sample-diagonal": ds.SampleAggregation(structure="diagonal"),
    "sample-full": ds.SampleAggregation(structure="full"),
    "interval-free": ds.IntervalAggregation(alpha=0.1, weights="free"),
    "interval-nonnegative": ds.IntervalAggregation(alpha=0.1, weights="nonnegative"),
    "interval-convex": ds.IntervalAggregation(alpha=0.1, weights="convex", shared=True, intercept=True),
    "interval-conformal": ds.IntervalAggregation(alpha=0.2, weights="convex", conformal=True),
}
SCORES = {
    "log": ds.LogScore(),
    "rank": ds.RankCvM(),
    "rank-moments": ds.RankMoments(),
    "moments": ds.MomentScore(diagonal=False),
    "moments-diagonal": ds.MomentScore(diagonal=True),
    "mean": ds.MeanScore(),
    "energy": ds.EnergyScore(),
    "interval": ds.IntervalScore(alpha=0.1),
    "js": ds.JensenShannon(hidden=(8,), epochs=3, draws=4),
    "log+rank": ds.LogScore() + 0.3 * ds.RankCvM(),
    "energy+js": ds.EnergyScore() + ds.JensenShannon(hidden=(8,), epochs=3, draws=4),
}


def digest(*arrays):
    """Return the first digits of the SHA-256 of some arrays: shapes, types and bytes."""
    state = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        state.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return state.hexdigest()[:16]


def cells():
    """Fit every form by every score on the toy; cells that are refused are digests too."""
    table = ds.toy.table(90, seed=3, draws=37)
    for form_name, form in FORMS.items():
        for score_name, score in SCORES.items():
            solver = ds.solvers.Minimax(rounds=3) if "js" in score_name else None
            try:
                fit = ds.stack(table, form, score, solver=solver, tol=1e-8, seed=0)
            except ds.IntractableError:
                yield f"cell {form_name} x {score_name}", "refused"
                continue
            arrays = [fit.params[name] for name in sorted(fit.params)]
            yield f"cell {form_name} x {score_name}", digest(*arrays, np.float64(fit.loss))


def training():
    """Train four small members of both families, and ask for densities and draws."""
    simulations = ds.simulate(ds.tasks.get("two_moons"), n=300, seed=1)
    theta, y = simulations.theta, simulations.y
    for family in ("maf", "nsf"):
        ensemble = ds.train(
            theta, y, members=2, family=family, sweep=ds.Sweep(), engine="compiled", seed=4,
            prior=ds.tasks.get("two_moons").prior, workers=2, epochs=3, patience=20, validation=0.1,
            log_y=False, clip_y=6.0,
        )  # fmt: skip
        for name, member in zip(ensemble.names, ensemble, strict=True):
            density, draws = member.log_prob(theta[:20], y[:20]), member.sample(7, y[:5], seed=2)
            yield f"member {name}", digest(density, draws)
        table = ds.tabulate(ensemble, theta[:50], y[:50], draws=31, keep_draws=True, levels=(0.05, 0.95), seed=6)
        yield f"table {family}", digest(*_statistics(table))


def run(directory):
    """Make a small run by the command line, and digest what its files hold."""
    verbs = [
        "simulate RUN --task two_moons --train 150 --stack 60 --test 40 --seed 3",
        "train RUN --members 3 --family nsf --epochs 3 --sweep default --patience 20 --seed 2 --workers 2",
        "tabulate RUN --draws 31 --keep-draws --seed 5 --workers 1",
        "stack RUN --form mixture --score log --name log",
        "stack RUN --form mixture --score log+0.1*rank --name hybrid",
        "compare RUN",
    ]
    for verb in verbs:
        words = [str(directory) if word == "RUN" else word for word in verb.split()]
        done = subprocess.run(
            [sys.executable, "-m", "drystone", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"`drystone {verb}` failed:\n{done.stderr}")
    simulations = ds.Simulations.load(directory)
    yield "run simulations", digest(simulations.theta, simulations.y)
    yield "run table", digest(*_statistics(ds.Table.load(directory / "table.zarr")))
    for name in ("log", "hybrid"):
        fit = ds.Stacking.load(directory / "fits" / f"{name}.json")
        yield f"run fit {name}", digest(fit.weights, np.float64(fit.loss))
    for path in sorted((directory / "members").glob("*.safetensors")):
        yield f"run {path.name}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _statistics(table):
    dataset = table.to_xarray()
    return [dataset[name].to_numpy() for name in sorted(dataset.data_vars) if dataset[name].dtype.kind == "f"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        found = dict([*cells(), *training(), *run(Path(directory) / "run")])
    if asked.action == "write":
        asked.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} digests in {asked.file}")
        return
    before = json.loads(asked.file.read_text())
    changed = [name for name in {**before, **found} if before.get(name) != found.get(name)]
    for name in changed:
        print(f"{name}: {before.get(name)} -> {found.get(name)}")
    print(f"{len(changed)} of {len(before)} digests changed")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
