"""A group of commands of which one is meant where none is named."""

from typing import Any

import click

from coordinator.cli.subcommands import Subcommands


class DefaultSubcommand(Subcommands):
    """`groupd groups --json` is `groupd groups list --json`."""

    def __init__(self, *, default: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self._default, *args]
        return super().parse_args(ctx, args)
