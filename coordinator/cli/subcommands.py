"""A group of commands whose modules are imported when they are called."""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from coordinator.suggestions import nearest_names


class Subcommands(click.Group):
    """Each subcommand is `command` in the module of its name, with underscores for hyphens; of `import` that is
    `import_`."""

    def __init__(self, *, package: str, described: Mapping[str, str], **attributes: Any) -> None:
        """In: the package of the modules; the subcommands by name, with the first line of their help."""
        super().__init__(**attributes)
        self._package = package
        self._described = described

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._described)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._described:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command: click.Command = import_module(f"{self._package}.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._described and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command '{name}'.{self._suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)

    def _suggestion(self, name: str) -> str:
        near = nearest_names(name, self._described)
        return f" Did you mean '{near[0]}'?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._described.items()))
