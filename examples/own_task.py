"""Your own simulator as a task, in ten lines; then a thousand simulations, kept on disk.

Run it twice: the second run reads what the first has stored.
"""

import tempfile
from pathlib import Path

import numpy as np

import drystone as ds


class Decay(ds.tasks.Task):
    """Counts of a decaying source at five times, its rate and its strength unknown."""

    name = "decay"
    parameters = ("rate", "strength")
    y_dim = 5
    prior = ds.tasks.Uniform([0.1, 10.0], [2.0, 100.0])

    def simulate(self, theta, rng):
        """Draw the counts."""
        rate, strength = theta[:, :1], theta[:, 1:]
        return rng.poisson(strength * np.exp(-rate * np.arange(5))).astype(float)


if __name__ == "__main__":
    directory = Path(tempfile.gettempdir()) / "drystone-decay"
    theta, y = ds.simulate(Decay(), n=1000, seed=1, workers=2, directory=directory)
    print(f"{len(theta)} simulations in {directory}")
    print(f"theta {theta.shape}, first row {theta[0].round(2)}")
    print(f"y     {y.shape}, first row {y[0]}")
