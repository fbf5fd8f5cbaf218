"""A client of groupd's HTTP API: `Groupd` for programs that wait, `AsyncGroupd` for asyncio.

Names, units and values are those of the API. A response is a `Value` with all fields that the daemon sends, also
those of a newer daemon. Each call raises `Unreachable` without a groupd at the URL, and `Problem` if groupd refuses
the request.
"""

from groupd_client.client import Broker, Groupd, Namespace
from groupd_client.group import Clock, Fault, Group, Ledger, Member, StandIn
from groupd_client.problem import (
    BadRequest,
    ClockStopped,
    ControlOff,
    GroupdError,
    NameTaken,
    NoSuchGroup,
    NoSuchMember,
    NoSuchNamespace,
    NotMet,
    Problem,
    Unreachable,
)
from groupd_client.value import Value
from groupd_client.version import __version__

__all__ = [
    "AsyncGroupd",
    "BadRequest",
    "Broker",
    "Clock",
    "ClockStopped",
    "ControlOff",
    "Fault",
    "Group",
    "Groupd",
    "GroupdError",
    "Ledger",
    "Member",
    "NameTaken",
    "Namespace",
    "NoSuchGroup",
    "NoSuchMember",
    "NoSuchNamespace",
    "NotMet",
    "Problem",
    "StandIn",
    "Unreachable",
    "Value",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Import `AsyncGroupd` at its first use, because it needs aiohttp."""
    if name == "AsyncGroupd":
        from groupd_client.asynchronous import AsyncGroupd

        return AsyncGroupd
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
