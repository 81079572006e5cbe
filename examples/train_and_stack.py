"""From a simulator to one posterior: train an ensemble on Two Moons, stack it, and measure it against the truth.

Run it with ``python examples/train_and_stack.py`` (``--quick`` for a smaller one). `drystone demo` does the same.
"""

import sys

import drystone as ds


def tabulate(ensemble, theta, y, seed):
    """What each member says of each simulation: densities (K, N) and draws (K, N, S, d)."""
    draws = ensemble.sample(200, y, seed=seed).swapaxes(1, 2)
    return ds.Table(theta, y, log_q=ensemble.log_prob(theta, y), draws=draws, names=ensemble.names)


def main():
    quick = "--quick" in sys.argv
    task = ds.tasks.get("two_moons")  # its exact posterior is known

    theta, y = ds.simulate(task, n=1000 if quick else 10_000, seed=1)
    ensemble = ds.train(
        theta, y, members=3 if quick else 8, family="nsf", prior=task.prior, seed=0, epochs=5 if quick else 40
    )

    # Weights from simulations that no member has seen; numbers from others again.
    validation = tabulate(ensemble, *ds.simulate(task, n=300 if quick else 1000, seed=2), seed=2)
    theta, y = ds.simulate(task, n=300 if quick else 2000, seed=3)
    test = tabulate(ensemble, theta, y, seed=3)

    fit = ds.stack(validation)
    print(fit.summary(), ds.compare(validation, test, fit), sep="\n\n")
    truth = task.log_posterior(theta, y).mean()
    posterior = fit.posterior(ensemble)
    print(f"\nAt the first of these the stacked mean is {posterior.mean(y[0], seed=0).round(3)}.")
    print(f"The exact posterior has log density {truth:.3f} on these simulations: no method can beat it.")


if __name__ == "__main__":
    main()
