"""One operation of the API, declared: what OpenAPI says of it, and who answers it, come from here alone."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import ProblemKind

Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request. `path` are the names in the path, `query` and `body` instances of what the route declares;
    `actor` is the header X-Groupd-Actor, None without one; `accept` is the header Accept, "" without one;
    `last_event_id` is the header Last-Event-ID of a stream's reader, None at its first request; `host` is the
    header Host. `why_off` is the reason why changes are refused, None where they are allowed; with `needs_token`
    they are allowed with a token."""

    path: Mapping[str, str]
    query: Any
    body: Any
    actor: str | None
    accept: str = ""
    last_event_id: str | None = None
    host: str = "localhost"
    why_off: str | None = None
    needs_token: bool = False


RouteHandler = Callable[[ControlPlane, ApiCall], Awaitable[Any]]
"""Answers a call with a value of the type that its route declares. Raises Problem."""

Chunks = AsyncGenerator[bytes, None]
StreamHandler = Callable[[ControlPlane, ApiCall], Awaitable[Chunks]]
"""Begins an answer that comes in pieces. Raises Problem; the pieces raise nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One operation. `path` is below /v1, such as "/groups/{group}/ledger"; `query` and `body` are msgspec Structs
    that forbid unknown fields, a body also a mapping (None: there is none); `answer` is what is answered, None for
    204; `text` makes of it what people read, for those who accept text/plain; `changes`: whether it may be asked
    only where control is on; whoever answers it notes what was done (`operator_actions.py`); `needs_enable`:
    whether it harms the process, so that control has to be on in so many words; `lasts`: whether its answer may be
    long in coming, so that others have to be left connections; `problems`: what it may raise beside what every
    route may; `is_process_wide`: whether it is about all brokers of the process, so that it is not there for each
    of them."""

    method: Method
    path: str
    summary: str
    handle: RouteHandler
    query: type[Struct] | None = None
    body: Any = None
    answer: Any = None
    text: Callable[[Any], str] | None = None
    changes: bool = False
    needs_enable: bool = False
    lasts: bool = False
    problems: tuple[ProblemKind, ...] = ()
    is_process_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRoute:
    """A GET whose answer comes in pieces, as long as its reader stays and the daemon does. `path`, `query` and
    `problems` are those of `ApiRoute`; `content_type` is what the pieces are, `is_endless` whether more may always
    come."""

    path: str
    summary: str
    open_stream: StreamHandler
    content_type: str
    is_endless: bool
    query: type[Struct] | None = None
    problems: tuple[ProblemKind, ...] = ()
