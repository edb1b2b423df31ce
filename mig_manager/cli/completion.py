"""``mig-manager completion``: the script by which a shell completes verbs and options."""

from __future__ import annotations

import click

from mig_manager.cli.group import CONTEXT


@click.command(context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: bash, zsh or fish.

    \b
    Examples:
      source <(mig-manager completion bash)
      mig-manager completion fish > ~/.config/fish/completions/mig-manager.fish
    """
    from click.shell_completion import get_completion_class

    program = "mig-manager"
    found = get_completion_class(shell)
    if found is None:  # the choice above offers only shells that click knows
        raise AssertionError(shell)
    click.echo(found(ctx.find_root().command, {}, program, "_MIG_MANAGER_COMPLETE").source())
