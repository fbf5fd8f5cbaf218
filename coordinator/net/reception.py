"""What a connection has of the listener that let it in."""

import asyncio
from typing import Protocol

from coordinator.clock import Turn
from coordinator.names import Node
from coordinator.net.large_answers import LargeAnswers
from coordinator.net.outbox import Outbox
from coordinator.net.request_memory import Receiver, RequestMemory
from coordinator.net.routes import Routes
from coordinator.net.run_queue import RunQueue
from coordinator.net.unread_answers import UnreadAnswers


class Guest(Receiver, Protocol):
    """A connection, as its listener sees it."""

    @property
    def peer(self) -> str:
        """Host and port, for a log line."""

    @property
    def client_host(self) -> str:
        """The address, with Java's leading slash."""

    @property
    def last_received_ns(self) -> int:
        """When bytes last came, or left, in monotonic nanoseconds."""

    @property
    def open_answers(self) -> int:
        """Requests that were processed and have no answer yet."""

    @property
    def answer_bytes(self) -> int:
        """The size of the answers that have not left yet."""

    def is_idle_since(self, oldest_ns: int) -> bool:
        """Whether nothing came or left since then, and nothing is being answered."""

    def close(self) -> None:
        """Sends what is ready, then closes."""

    def abort(self) -> None:
        """Closes at once."""


class Reception(Protocol):
    """One listener's side of its connections."""

    loop: asyncio.AbstractEventLoop
    outbox: Outbox
    run_queue: RunQueue
    turn: Turn
    routes: Routes
    large_answers: LargeAnswers
    memory: RequestMemory
    unread: UnreadAnswers
    max_request_bytes: int
    fallback_node: Node

    def node_for(self, sockname: object) -> Node:
        """This broker as a connection should know it; `sockname` is the local end of its socket."""

    def closed(self, guest: Guest) -> None:
        """A connection is gone."""

    def refused(self, guest: Guest, reason: str) -> None:
        """A connection sent something that is no request, and is being closed."""

    def handler_failed(self, guest: Guest, problem: Exception) -> None:
        """Answering a request failed for a reason that is ours; the connection is being closed."""
