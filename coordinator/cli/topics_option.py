"""The option --topic NAME:PARTITIONS."""

from collections.abc import Callable
from typing import Any

import click


def topics_option(*, help_text: str) -> Callable[[Any], Any]:
    """The option, passed on as `topics`: names with partition counts, each name once."""
    return click.option(
        "--topic", "topics", multiple=True, metavar="NAME:PARTITIONS", callback=_topics, help=help_text
    )


def _topics(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    topics: dict[str, int] = {}
    for value in values:
        name, colon, count = value.rpartition(":")
        if not colon or not (count.isascii() and count.isdigit()) or not 1 <= int(count) < 2**31:
            raise click.BadParameter(f"{value} is not NAME:PARTITIONS")
        if topics.setdefault(name, int(count)) != int(count):
            raise click.BadParameter(f"{name} is given twice, with {topics[name]} and {count} partitions")
    return list(topics.items())
