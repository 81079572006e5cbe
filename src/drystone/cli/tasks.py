"""`drystone tasks`: the simulators that come with Drystone."""

from __future__ import annotations

from drystone.cli.command import command, print_result


@command(("drystone tasks", "names, sizes, and whether the exact posterior is known"))
def tasks() -> None:
    """List the simulators, for `drystone simulate --task NAME`."""
    import drystone as ds
    from drystone.tasks import Task

    available = [ds.tasks.get(name) for name in ds.tasks.names()]
    exact = {task.name: type(task).log_evidence is not Task.log_evidence for task in available}
    lines = [f"{'':<20}{'parameters':>12}{'data':>8}   exact posterior"]
    for task in available:
        known = "known" if exact[task.name] else "not known"
        lines.append(f"{task.name:<20}{task.theta_dim:>12}{task.y_dim:>8}   {known}")
    print_result(
        "\n".join(lines),
        tasks={
            task.name: {"parameters": task.parameters, "data": task.y_dim, "exact": exact[task.name]}
            for task in available
        },
    )
