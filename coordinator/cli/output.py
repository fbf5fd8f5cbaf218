"""What a command writes to: a terminal with a person before it, or something that a program reads."""

import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

AUTO: Final = "auto"
ALWAYS: Final = "always"
NEVER: Final = "never"

_PLAIN_TERMINALS: Final = ("dumb", "unknown")


@dataclass(frozen=True, slots=True)
class Output:
    """How to write."""

    is_terminal: bool
    """Standard output is a terminal: lines are laid out for its width, and cut where they are very long."""
    is_colored: bool
    shows_progress: bool
    """Standard error is a terminal, and standard output no pipe, whose reader may use that terminal (a pager)."""

    @property
    def is_for_people(self) -> bool:
        """Whether figures are best shown in tables: on a terminal, or in colours for a pager."""
        return self.is_terminal or self.is_colored


def _output(color: str) -> tuple[Output, bool]:
    """Standard output and standard error as they are, and whether a terminal may have colours at all."""
    can_do_more_than_print = os.environ.get("TERM", "").lower() not in _PLAIN_TERMINALS
    has_colors = can_do_more_than_print and not os.environ.get("NO_COLOR")
    may_color = color == ALWAYS or (color == AUTO and has_colors)
    is_terminal = can_do_more_than_print and sys.stdout.isatty()
    is_colored = may_color and (is_terminal or color == ALWAYS)
    shows_progress = can_do_more_than_print and sys.stderr.isatty() and not _is_piped()
    return Output(is_terminal, is_colored, shows_progress), may_color


def _is_piped() -> bool:
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _parse(context: click.Context, _: click.Parameter, color: str) -> Output:
    output, may_color = _output(color)
    if not may_color:
        context.color = False  # what click prints, such as errors, as well
    return output


_NAMES: Final = ("--color", "output")
_COLOR: Final[Mapping[str, Any]] = {
    "type": click.Choice([AUTO, ALWAYS, NEVER]),
    "default": AUTO,
    "show_default": True,
    "callback": _parse,
    "help": "Whether to use colours. By itself a terminal has them, unless NO_COLOR is set.",
}


def color_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --color, passed on as `output`.

    By itself a terminal has colours unless NO_COLOR is set (https://no-color.org).
    """
    return click.option(*_NAMES, **_COLOR)(command)


def color_parameter() -> click.Option:
    """The same for a command that is put together otherwise."""
    return click.Option(_NAMES, **_COLOR)
