"""What a fault matches, and what it does, as the API has it, from what people write on the command line."""

import re
from collections.abc import Iterable
from typing import Final

import click

from coordinator.cli.control.arguments import commas
from coordinator.net.peer import printable

_TERM: Final = re.compile(r"([a-z_]+) *(>=|<=|<|>|=) *(.+)", re.DOTALL)
_COORDINATOR: Final = re.compile(r"([0-9]{1,10})@(.+):([0-9]{1,5})")
_WORDS: Final = {"true": True, "false": False}
_YES_OR_NO: Final = ("first_join",)

Fields = dict[str, object]


def match_fields(_: click.Context, __: click.Parameter, values: Iterable[str]) -> Fields | None:
    """`api=SyncGroup,generation>=3`; a name that is there several times may be any of those. None for nothing."""
    found: Fields = {}
    for term in (term for value in values for term in commas(value)):
        _add(found, term)
    return found or None


def event_fields(_: click.Context, __: click.Parameter, values: Iterable[str]) -> Fields | None:
    """The same of an event, whose name needs no `event=`: `GroupStabilized,group=billing`."""
    found: Fields = {}
    for term in (term for value in values for term in commas(value)):
        _add(found, f"event={term}" if term.isalnum() else term)
    return found or None


def _add(found: Fields, term: str) -> None:
    parts = _TERM.fullmatch(term)
    if parts is None:
        raise click.BadParameter(f"{printable(term)} is none of NAME=VALUE, NAME>=N, NAME<=N, NAME>N, NAME<N")
    name, operator, text = parts.groups()
    value: object = text if operator == "=" else operator + text
    if name in _YES_OR_NO:
        if text not in _WORDS or operator != "=":
            raise click.BadParameter(f"{name} is true or false")
        value = _WORDS[text]
    before = found.get(name)
    if before is None:
        found[name] = value
    else:
        found[name] = [*before, value] if isinstance(before, list) else [before, value]


def error_code(_: click.Context, __: click.Parameter, value: str | None) -> str | int | None:
    """A code by name or number."""
    if value is not None and re.fullmatch(r"-?[0-9]{1,5}", value, re.ASCII):
        return int(value)
    return None if value is None else value.upper().replace("-", "_")


def coordinator(_: click.Context, __: click.Parameter, value: str | None) -> Fields | None:
    """NODE@HOST:PORT, such as 2@broker:9092."""
    if value is None:
        return None
    found = _COORDINATOR.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{printable(value)} is not NODE@HOST:PORT")
    return {"node_id": int(found[1]), "host": found[2].strip("[]"), "port": int(found[3])}
