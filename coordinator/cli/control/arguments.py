"""What people write on the command line about groups, partitions, numbers and durations, as the API has it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from coordinator.net.peer import printable

LONGEST_WAIT_S: Final = 600
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) *(ms|s|m|h|d)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RANGE: Final = re.compile(r"([0-9]+)?\.\.([0-9]+)?")
_OFFSET_DIGITS: Final = 19
_EVENT_NUMBER: Final = re.compile(r"([0-9a-f]{1,32}\.)?(-1|[0-9]{1,18})")
_NOT_ESCAPED_COMMA: Final = re.compile(r"(?<!\\),")


class Duration(click.ParamType[str]):
    """As people write it: 45s, 1500ms, 5m, 2h, 8d; a number alone is milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if text.isascii() and text.isdigit():
            text += "ms"
        if _DURATION.fullmatch(text) is None:
            self.fail(f"{printable(text)!r} is no duration: write 45s, 1500ms, 5m, 2h or 8d", param, ctx)
        return text


DURATION: Final = Duration()


def seconds(duration: str | None) -> float:
    """How long that is. In: what `Duration` gave."""
    found = _DURATION.fullmatch(duration or "0s")
    assert found is not None
    return float(found[1]) * _UNITS_S[found[2]]


def not_empty(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """For a name: raises BadParameter for none."""
    if value == "":
        raise click.BadParameter("the empty name is none that can be asked for")
    return value


def group_argument(*, is_required: bool = True) -> Callable[[Any], Any]:
    """The argument GROUP, passed on as `group`."""
    return click.argument("group", required=is_required, callback=not_empty)


def name_argument() -> Callable[[Any], Any]:
    """The argument NAME, passed on as `name`."""
    return click.argument("name", callback=not_empty)


def event_number(_: click.Context, __: click.Parameter, said: str | None) -> int | str | None:
    """The number of an event (431), or with the mark of its process (5f3a9c1e.431)."""
    found = None if said is None else _EVENT_NUMBER.fullmatch(said)
    if said is None or (found is not None and found[1]):
        return said
    if found is None:
        raise click.BadParameter(f"{printable(said)!r} is no event: write 431, or 5f3a9c1e.431")
    return int(said)


def listed(_: click.Context, __: click.Parameter, values: Sequence[str]) -> list[str] | None:
    """The names in the values of an option that may be repeated, and have commas between names.

    None where the option is not given; [] where its value is empty, as that of an unset variable of the shell.
    """
    names = [name for value in values for name in commas(value)]
    if "" in names:
        raise click.BadParameter("a name is missing before or after a comma")
    return names if values else None


def commas(text: str) -> list[str]:
    r"""The parts between commas; `\,` is a comma in a part. An empty text has none."""
    parts = _NOT_ESCAPED_COMMA.split(text) if text.strip() else []
    return [part.replace("\\,", ",").strip() for part in parts]


def pairs(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str] | None:
    """NAME=VALUE of an option that may be repeated, and have commas between them; None where it is not given."""
    found: dict[str, str] = {}
    for pair in (pair for value in values for pair in commas(value)):
        name, _equals, text = pair.partition("=")
        if not name or not text:
            raise click.BadParameter(f"{printable(pair)} is not NAME=VALUE")
        if found.setdefault(name, text) != text:
            raise click.BadParameter(f"{printable(name)} is there twice")
    return found if values else None


def offsets(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, int] | None:
    """The same where the values are offsets."""
    found = pairs(context, parameter, values)
    if found is None:
        return None
    for text in found.values():
        if not (text.isascii() and text.isdigit() and len(text) < _OFFSET_DIGITS):
            raise click.BadParameter(f"{printable(text)} is no offset")
    return {name: int(text) for name, text in found.items()}


def count(_: click.Context, __: click.Parameter, value: str | None) -> int | dict[str, int] | None:
    """A number, or a range: 3, 2..4, 3.., ..4."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return int(value)
    found = _RANGE.fullmatch(value)
    if found is None or value == "..":
        raise click.BadParameter(f"{printable(value)} is no number, and no range such as 2..4, 3.. or ..4")
    return {name: int(text) for name, text in (("min", found[1]), ("max", found[2])) if text is not None}
