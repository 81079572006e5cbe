"""Seconds per epoch of flowjax's conditional flows, for `benchmarks/training.py others`, which starts this.

    python benchmarks/flowjax_epoch.py data.npz '{"family": "maf", "transforms": 5, "units": 50, …}'

Runs in an environment of its own (`pip install flowjax`), imports nothing of Drystone, and prints one JSON object.
Processor time, on one core; compiling is left out by difference.
"""

import json
import os
import sys
import time

import flowjax
import jax.nn
import jax.random as jr
import numpy as np
import optax
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow
from flowjax.train import fit_to_data
from flowjax.train.losses import MaximumLikelihoodLoss


def main(path, options):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads
    data = np.load(path)
    theta, y = (np.asarray((data[name] - data[name].mean(0)) / data[name].std(0)) for name in ("theta", "y"))
    spline = {"transformer": RationalQuadraticSpline(knots=options["bins"], interval=5)}
    flow = masked_autoregressive_flow(
        jr.key(0), base_dist=Normal(np.zeros(theta.shape[1])), cond_dim=y.shape[1],
        flow_layers=options["transforms"], nn_width=options["units"], nn_depth=options["layers"],
        nn_activation=jax.nn.tanh, **(spline if options["family"] == "nsf" else {}),
    )  # fmt: skip
    same = {"optimizer": optax.adam(options["learning_rate"]), "loss_fn": MaximumLikelihoodLoss()}

    def seconds(epochs):
        begin = time.process_time()
        fit_to_data(
            jr.key(1), flow, (theta, y), max_epochs=epochs, max_patience=epochs, batch_size=options["batch_size"],
            val_prop=0.1, show_progress=False, **same,
        )  # fmt: skip
        return time.process_time() - begin

    seconds(1)  # compiles
    epochs = options["epochs"]
    per_epoch = (min(seconds(1 + epochs) for _ in range(3)) - min(seconds(1) for _ in range(3))) / epochs
    print(json.dumps({"version": flowjax.__version__, "seconds": per_epoch}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
