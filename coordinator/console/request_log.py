"""What aiohttp has to tell of requests, in lines of ours.

It logs each request that is none with a traceback. Here that is one line, of which a peer gets some and then a
count; what is wrong with us keeps its traceback.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from coordinator.net.lines_per_address import LinesPerAddress
from coordinator.net.peer import printable

_LOG: Final = logging.getLogger("Console")
_PEERS: Final = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""Raised for what the peer does."""


class RequestLog(logging.Logger):
    """Takes what aiohttp logs of one server."""

    def __init__(self, lines: LinesPerAddress) -> None:
        """In: who says whether a peer that misbehaves is told of."""
        super().__init__("Console")
        self._lines = lines

    def _log(
        self, level: int, msg: object, args: Any, exc_info: Any = None, *_: object, **__: object
    ) -> None:
        # The one method that all others come down to.
        if isinstance(exc_info, _PEERS):
            peer = str(args[0]) if args else "a peer"
            if self._lines.is_to_be_told("/" + peer):
                reason = exc_info.message if isinstance(exc_info, HttpProcessingError) else str(exc_info)
                _LOG.warning("Refused what came from %s to the HTTP port: %s", peer, _first_line(reason))
        elif level >= logging.WARNING:
            assert not isinstance(args, Mapping)
            _LOG.log(level, str(msg), *args, exc_info=exc_info)


def _first_line(reason: str) -> str:
    return printable(reason.partition("\n")[0].removesuffix(":")) or "no HTTP"
