"""Extensions of click: groups that import a subcommand when it is called, groups with a default subcommand,
and the option --topic NAME:PARTITIONS.
"""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, NamedTuple

import click

from coordinator import __name__ as root_package
from coordinator.core.message_text import nearest_names


class Subcommand(NamedTuple):
    """A command of a group, before its module is imported."""

    reference: str
    """The function of the command below the package `coordinator`, such as "cli.ping:command"."""
    summary: str
    """The first line of the command's help."""


class Subcommands(click.Group):
    """Lists its commands without importing them."""

    def __init__(self, *, subcommands: Mapping[str, Subcommand], **attributes: Any) -> None:
        """Create a group of commands. `subcommands` are by name; click's Group has the other attributes."""
        super().__init__(**attributes)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._subcommands:
            return None
        command: click.Command = resolve_name(f"{root_package}.{self._subcommands[cmd_name].reference}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._subcommands and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command '{name}'.{self._format_suggestion(name)}", ctx)
        return super().resolve_command(ctx, args)

    def _format_suggestion(self, name: str) -> str:
        near = nearest_names(name, self._subcommands)
        return f" Did you mean '{near[0]}'?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._subcommands[name].summary) for name in self.list_commands(ctx)])


class DefaultSubcommand(Subcommands):
    """A group of commands with a default: `groupd groups --json` is `groupd groups list --json`. For an unknown
    word, the error suggests the subcommand `argument_default`: `groupd groups billing` suggests `groupd groups
    describe billing`."""

    def __init__(self, *, default: str, argument_default: str | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._default = default
        self._argument_default = argument_default

    def _format_suggestion(self, name: str) -> str:
        near = super()._format_suggestion(name)
        if near or self._argument_default is None:
            return near
        return f" Did you mean 'groupd {self.name} {self._argument_default} {name}'?"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self._default, *args]
        return super().parse_args(ctx, args)


def topics_option(*, help_text: str) -> Callable[[Any], Any]:
    """Create the option --topic, which is passed as `topics`: names with numbers of partitions, each name
    once."""
    return click.option(
        "--topic", "topics", multiple=True, metavar="NAME:PARTITIONS", callback=_parse_topics, help=help_text
    )


def _parse_topics(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    topics: dict[str, int] = {}
    for value in values:
        name, colon, count = value.rpartition(":")
        if not colon or not (count.isascii() and count.isdigit()) or not 1 <= int(count) < 2**31:
            raise click.BadParameter(f"{value} is not NAME:PARTITIONS")
        if topics.setdefault(name, int(count)) != int(count):
            raise click.BadParameter(f"{name} is given twice, with {topics[name]} and {count} partitions")
    return list(topics.items())
