"""Figure 6, left: log density of best, uniform and stacked against epochs of training."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drystone.training.sweep import Sweep
from experiments.ensembles import Plan, Setting, members
from experiments.figures import COLOURS, curve, panel
from experiments.markdown import estimate, grid
from experiments.record import Experiment
from experiments.rivals import density_table, log_densities, mean, rivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SETTING"]

EPOCHS = (5, 10, 20, 30, 50, 75, 100, 125, 150)
# The parameters at each epoch, not the best so far: nothing is stopped early.
SETTING = Setting("slcp", "maf", Sweep(), epochs=150, patience=None, snapshots=EPOCHS, label="epochs")


def run(plan: Plan) -> dict[str, Any]:
    """Return epoch → method → log density on the test simulations; and stacked at 50 against best at 150."""
    ensemble, at = members(SETTING, plan), SETTING.under(plan)
    curves, log_q = {}, {}
    for epoch in at.snapshots:
        then = ensemble.snapshot(epoch)
        validation, test = (density_table(then, SETTING, plan, use) for use in ("stacking", "test"))
        log_q[epoch] = log_densities(rivals(validation), test)
        curves[str(epoch)] = {method: mean(rows) for method, rows in log_q[epoch].items()}
    middle, last = min(at.snapshots, key=lambda e: abs(e - at.epochs / 3)), at.snapshots[-1]
    early = {
        "stacked at": middle,
        "best at": last,
        "gain": mean(log_q[middle]["stacked"] - log_q[last]["best"]),
    }
    return {"config": asdict(at), "epochs": curves, "early": early}


def table(result: dict[str, Any]) -> str:
    """Return one row per epoch."""
    rows = [[epoch, *(estimate(row[m]) for m in row)] for epoch, row in result["epochs"].items()]
    early = result["early"]
    gain = f"Stacked at epoch {early['stacked at']} over the best member at epoch {early['best at']}"
    return (
        f"{grid(['epochs', 'best', 'uniform', 'stacked'], rows)}\n\n{gain}: {estimate(early['gain'], '+')} nats."
    )


def draw(result: dict[str, Any]) -> Figure:
    """Draw log density against epochs."""
    figure, ax = panel("SLCP: log density while fifty flows are trained", "epochs", "log density")
    x = [int(epoch) for epoch in result["epochs"]]
    for method in ("best", "uniform", "stacked"):
        curve(ax, x, [row[method] for row in result["epochs"].values()], method, COLOURS[method])
    best_at_end = result["epochs"][str(x[-1])]["best"]["value"]
    ax.axhline(best_at_end, color=COLOURS["best"], linewidth=0.8, linestyle=":")
    # Uniform weights may be far below early on; what matters is near the top.
    values = [row[m]["value"] for row in result["epochs"].values() for m in ("best", "stacked")]
    ax.set_ylim(min(values) - 0.1, max(values) + 0.15)
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(run, table, {"slcp_epochs": draw})
