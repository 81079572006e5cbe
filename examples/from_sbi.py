"""Posteriors that sbi trained, stacked, and back into sbi's and ArviZ's tools.

Run it with ``python examples/from_sbi.py`` (``--quick`` for a smaller one). It needs the extra ``sbi``.
"""

import sys
import tempfile
import warnings

import torch
from sbi.diagnostics import check_sbc, run_sbc
from sbi.inference import NPE
from sbi.utils import BoxUniform
from sbi.utils.tracking import TensorBoardTracker
from torch.utils.tensorboard import SummaryWriter

import drystone as ds


def train(kind, theta, y, prior, epochs, seed):
    """One posterior, as in any sbi script. It leaks: the prior is bounded, the network does not know."""
    torch.manual_seed(seed)
    tracker = TensorBoardTracker(SummaryWriter(tempfile.mkdtemp()))  # by default sbi logs beside the script
    inference = NPE(prior, density_estimator=kind, show_progress_bars=False, tracker=tracker)
    inference.append_simulations(torch.tensor(theta).float(), torch.tensor(y).float())
    inference.train(max_num_epochs=epochs)
    return inference.build_posterior()


def main():
    warnings.filterwarnings(
        "ignore", "Maximum number of epochs|torch.triangular_solve|Number of posterior samples"
    )
    quick = "--quick" in sys.argv
    task = ds.tasks.get("two_moons")
    prior = BoxUniform(
        *(torch.tensor(bound).float() for bound in (task.prior.support.lower, task.prior.support.upper))
    )

    theta, y = ds.simulate(task, n=500 if quick else 1000, seed=1)
    posteriors = {
        f"{kind} {seed}": train(kind, theta, y, prior, 5 if quick else 20, seed)
        for kind, seed in (("maf", 0), ("nsf", 0), ("nsf", 1), ("mdn", 0))
    }

    # The only new line: each posterior becomes a member, held to the prior in its density and its draws alike.
    members = {name: ds.adapters.from_sbi(posterior) for name, posterior in posteriors.items()}

    # Weights from simulations that no posterior was trained on; numbers from others again.
    rows = 60 if quick else 100
    validation = ds.tabulate(members, *ds.simulate(task, n=rows, seed=2), draws=100, parameters=task.parameters)
    test = ds.tabulate(members, *ds.simulate(task, n=rows, seed=3), draws=100, parameters=task.parameters)
    fit = ds.stack(validation)
    print(fit.summary(), ds.compare(validation, test, fit), sep="\n\n")

    # The result goes where a posterior of sbi's goes: here into its calibration checks.
    stacked = fit.posterior(members)
    theta, y = (torch.tensor(array).float() for array in ds.simulate(task, n=100, seed=4))
    ranks, first = run_sbc(theta, y, stacked, num_posterior_samples=50 if quick else 100, show_progress_bar=False)
    print("\nsbi's check_sbc of the stacked posterior:")
    for name, value in check_sbc(ranks, theta, first, num_posterior_samples=50 if quick else 100).items():
        print(f"  {name:<11} {value.numpy().round(3)}")

    # A real NeuralPosterior of sbi, where one is asked for; and ArviZ.
    mode = stacked.to_sbi(prior).set_default_x(y[0]).map(num_iter=50, num_to_optimize=10, num_init_samples=100)
    print(f"\nAt the first observation the mode is {mode[0].numpy().round(3)}; θ was {theta[0].numpy().round(3)}.")
    print(stacked.to_arviz(y[0], draws=500, seed=0)["posterior"].to_dataset())


if __name__ == "__main__":
    main()
