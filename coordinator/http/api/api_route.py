"""The declaration of an operation of the API: the source of its route, its row in the index, its part of the
OpenAPI document, and its row in docs/http-operations.md."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import ProblemKind

Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request.

    - `path` has the path parameters; `query` and `body` are instances of the types that the route declares.
    - `actor` is the header X-Groupd-Actor, None without one.
    - `accept` is the header Accept, "" without one.
    - `last_event_id` is the header Last-Event-ID of a stream's reader, None in its first request.
    - `host` is the header Host.
    - `why_off` is the reason why changes are refused, None if they are allowed.
    - `needs_token`: a change requires the token.
    """

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
"""Handles a call and returns a value of the route's declared type. Raises Problem."""

Chunks = AsyncGenerator[bytes, None]
StreamHandler = Callable[[ControlPlane, ApiCall], Awaitable[Chunks]]
"""Starts a response in chunks. Raises Problem; the iterator of the chunks raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One operation of the API.

    - `path` is below /v1, such as "/groups/{group}/ledger".
    - `query` and `body` are msgspec Structs that forbid unknown fields; a body may also be a mapping, or None.
    - `answer` is the type of the response; None means 204.
    - `command` has the words of the groupd command that calls the operation, "" without one.
    - `text` formats the response for clients that accept text/plain.
    - `changes`: the operation requires that control is on. Its handler records it (`operator_actions.py`).
    - `needs_enable`: the operation harms the process and requires an explicit `control.enable`.
    - `lasts`: the response may take long, so the operation leaves connections to other requests.
    - `problems` are the types of problems that it may raise, besides those of every operation.
    - `is_process_wide`: the operation concerns all brokers of the process and does not exist for a namespace.
    """

    method: Method
    path: str
    summary: str
    handle: RouteHandler
    query: type[Struct] | None = None
    body: Any = None
    answer: Any = None
    command: str = ""
    text: Callable[[Any], str] | None = None
    changes: bool = False
    needs_enable: bool = False
    lasts: bool = False
    problems: tuple[ProblemKind, ...] = ()
    is_process_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRoute:
    """A GET with a response in chunks, which ends with its reader or the daemon.

    `path`, `query`, `command` and `problems` are those of `ApiRoute`. `content_type` is the type of the chunks.
    `is_endless`: the stream has no last chunk."""

    path: str
    summary: str
    open_stream: StreamHandler
    content_type: str
    is_endless: bool
    query: type[Struct] | None = None
    command: str = ""
    problems: tuple[ProblemKind, ...] = ()
