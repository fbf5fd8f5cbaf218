"""The bodies of requests: JSON, within bounds of size and time."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from aiohttp import web
from msgspec import Struct

from coordinator.console.api.request_values import bad_request, body_value
from coordinator.console.api.responses import JSON
from coordinator.control.problem import Problem, ProblemKind

MAX_BODY_BYTES: Final = 1024 * 1024
ALL_BODY_BYTES: Final = 16 * 1024 * 1024
"""Of all that are being received. Whoever has more to send then comes back later;"""
SMALL_BODY_BYTES: Final = 64 * 1024
"""what is no larger is always taken."""

Receiving = Callable[[web.Request], AbstractContextManager[None]]


class NoParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a route that declares none: many HTTP clients send `{}` with every POST."""


class Bodies:
    """All that are being received."""

    def __init__(self, request_timeout_s: float, receiving: Receiving) -> None:
        """In: how long one may take to come; what is entered meanwhile."""
        self._request_timeout_s = request_timeout_s
        self._receiving = receiving
        self._bytes = 0

    async def value(self, wanted: Any, request: web.Request) -> Any:
        """Read and decode the body of a request.

        `wanted` is the type that the route declares; None for a route without parameters, which accepts an empty
        object. Raises Problem (bad-request, not-json, too-large, too-many).
        """
        kind = NoParameters if wanted is None else wanted
        if not request.body_exists:
            return body_value(kind, b"")
        _check_json(request)
        return body_value(kind, await self._read(request))

    async def _read(self, request: web.Request) -> bytearray:
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise _too_large()
        body = bytearray()
        try:
            with self._receiving(request):
                async with asyncio.timeout(self._request_timeout_s):
                    async for piece in request.content.iter_any():
                        body += piece
                        self._bytes += len(piece)
                        self._check_room(len(body))
        except TimeoutError as error:
            detail = f"The body has not come in {self._request_timeout_s:g} s (http.request.timeout.ms)."
            raise bad_request("", "The body is too slow", detail) from error
        except web.RequestPayloadError as error:
            raise bad_request("", "The body is broken", "The body is not sent as HTTP has it.") from error
        finally:
            self._bytes -= len(body)
        return body

    def _check_room(self, size: int) -> None:
        """Raises Problem for a body that has become too large, for itself or beside all others."""
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if size > SMALL_BODY_BYTES and self._bytes > ALL_BODY_BYTES:
            detail = f"All bodies together have more than {ALL_BODY_BYTES} bytes now."
            raise Problem(ProblemKind.TOO_MANY, "There are too many large bodies", detail)


def is_read(request: web.Request) -> bool:
    """Whether nothing of a request is still to come."""
    return request.content.at_eof() if request.body_exists else True


def _check_json(request: web.Request) -> None:
    """A browser sends JSON to another site only after it has asked, and is not let."""
    is_said = "Content-Type" in request.headers
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if not is_said or request.content_type.lower() != JSON or encoding != "identity":
        raise Problem(
            ProblemKind.NOT_JSON,
            "The body is no JSON",
            f"A body has to be said to be {JSON} (Content-Type), and not encoded (Content-Encoding).",
        )


def _too_large() -> Problem:
    detail = f"The body has more than {MAX_BODY_BYTES} bytes."
    return Problem(ProblemKind.TOO_LARGE, "The body is too large", detail)
