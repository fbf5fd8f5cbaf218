"""A client of groupd's HTTP API: `Groupd` for programs that wait, `AsyncGroupd` for asyncio.

Names, units and values are those of the API; answers are `Value`s, which have whatever the daemon says, so
that a newer daemon can say more. Everything raises `Unreachable` where no groupd answers, and `Problem` where
it says no.
"""

from groupd_client.client import Groupd
from groupd_client.fault import Fault
from groupd_client.group import Clock, Group, Ledger, Member, StandIn
from groupd_client.namespace import Broker, Namespace
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
