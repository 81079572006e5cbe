"""`drystone completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from drystone.cli.command import command, print_result


@command(
    ('eval "$(drystone completion bash)"', "in ~/.bashrc"),
    ('eval "$(drystone completion zsh)"', "in ~/.zshrc"),
    ("drystone completion fish > ~/.config/fish/completions/drystone.fish", "once"),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from drystone.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click has one for each of the choices
    script = kind(cli, {}, "drystone", "_DRYSTONE_COMPLETE").source()
    print_result(script, shell=shell, script=script)
