"""What a guard says of a request."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from coordinator.server.authorization.permits import Permits


@dataclass(frozen=True, slots=True)
class Pass:
    """What is left of the request goes to its handler."""

    finish: Callable[[Any], Any] | None = None
    """Makes the answer for the client of the handler's, when that comes; None: it is as it should be."""
    closes: bool = False
    """Whether the connection is closed when the request is done with, since its client wants no answer."""
    arguments: tuple[Any, ...] = ()
    """What the handler is to be told besides."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler does not see the request."""

    response: object
    """The answer, or one of `coordinator.answers`."""


PASS: Final = Pass()

Verdict = Pass | Refused
Steps = Generator[None, None, Verdict]
"""Leads to a verdict; others may be answered in between."""
Guard = Callable[[Any, Permits], Verdict | Steps]
"""Looks at a request, and takes out of it what is refused."""
