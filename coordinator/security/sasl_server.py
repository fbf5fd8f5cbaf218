"""One authentication by a mechanism of SASL, as the server sees it: tokens come in, and each is judged.

Source: RFC 4422; Java's `SaslServer`, as Kafka's `SaslServerAuthenticator` uses it.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client is to answer this token with one more."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is who it says: the name of its principal, and what it is told last."""

    name: str
    token: bytes = field(default=b"", repr=False)
    lifetime_ms: int | None = None
    """How long what it has shown is good for, from now on; None: for ever."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The client is not let in."""

    reason: str
    """For the operator's log: it says more than the client may know, but no secret."""
    message: str | None = None
    """What the client is told; None: what everybody is told whose credentials are no good."""


Judged: TypeAlias = Challenge | Authenticated | Refused


@dataclass(frozen=True, slots=True)
class Pending:
    """What becomes of a token has to be waited for; meanwhile there is no other step."""

    wait: Callable[[], Coroutine[Any, Any, Judged]]
    """Never raises; called once at most."""


Step: TypeAlias = Judged | Pending


class SaslServer(Protocol):
    """One authentication. After anything but a challenge, at once or in the end, there is no further step."""

    def step(self, token: bytes) -> Step:
        """Judges the next token, whatever it is. Never raises."""
