"""From a simulator to one posterior: train an ensemble on Two Moons, stack it, and measure it against the truth.

Run it with ``make demo`` or ``python examples/train_and_stack.py`` (``--quick`` for a smaller one).
"""

import sys

import numpy as np

import drystone as ds


def tabulate(members, theta, y, seed):
    """What each member says of each simulation."""
    log_q = np.stack([member.log_prob(theta, y) for member in members])
    draws = np.stack([member.sample(200, y, seed=seed).swapaxes(0, 1) for member in members])
    return ds.Table(theta, y, log_q=log_q, draws=draws, names=[member.name for member in members])


def main():
    quick = "--quick" in sys.argv
    task = ds.tasks.get("two_moons")  # its exact posterior is known

    theta, y = ds.simulate(task, n=1000 if quick else 10_000, seed=1)
    members = ds.train(
        theta, y, members=3 if quick else 8, family="nsf", prior=task.prior, seed=0, epochs=5 if quick else 40
    )

    # Weights from simulations that no member has seen; numbers from others again.
    validation = tabulate(members, *ds.simulate(task, n=300 if quick else 1000, seed=2), seed=2)
    theta, y = ds.simulate(task, n=300 if quick else 2000, seed=3)
    test = tabulate(members, theta, y, seed=3)

    fit = ds.stack(validation)
    print(fit.summary(), ds.compare(validation, test, fit), sep="\n\n")
    truth = task.log_posterior(theta, y).mean()
    print(f"\nThe exact posterior has log density {truth:.3f} on these simulations: no method can beat it.")


if __name__ == "__main__":
    main()
