"""Answers that come in pieces: each is sent when it is there, until there are no more, the reader goes, or we
do."""

import asyncio
from typing import Any, Final, Literal

from aiohttp import web

from coordinator.console.api.responses import HEADERS
from coordinator.console.api.route import Pieces, StreamRoute
from coordinator.control.problem import Problem, ProblemKind

MOST_ENDLESS: Final = 32
"""Readers of endless answers: each keeps a connection."""


class Piecewise:
    """All of them."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._endless = 0

    def close(self) -> None:
        """Ends every answer; nothing is sent any more."""
        self._closing.set()

    async def send(self, request: web.Request, route: StreamRoute, pieces: Pieces) -> web.StreamResponse:
        """Sends pieces as they come. Raises Problem before the first."""
        answer = web.StreamResponse(headers=HEADERS)
        answer.content_type = route.content_type
        answer.charset = "utf-8" if route.content_type.startswith("text/") else None
        if request.method == "HEAD":
            await answer.prepare(request)
            return answer
        if route.is_endless and self._endless >= MOST_ENDLESS:
            detail = f"{MOST_ENDLESS} read already, and no more may."
            raise Problem(ProblemKind.TOO_MANY, "There are too many readers", detail)
        self._endless += route.is_endless
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await answer.prepare(request)
            while (piece := await self._next(pieces, closing)) is not None:
                await answer.write(piece)
            await answer.write_eof()
        except ConnectionError:
            pass  # the reader has gone, as it may
        finally:
            closing.cancel()
            self._endless -= route.is_endless
        return answer

    async def _next(self, pieces: Pieces, closing: "asyncio.Future[Literal[True]]") -> bytes | None:
        """The next piece; None when there is none."""
        coming: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(pieces, None))
        both: list[asyncio.Future[Any]] = [coming, closing]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else None
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait([coming])
