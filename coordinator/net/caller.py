"""Whoever has sent the request at hand: all that a handler knows of a connection."""

from typing import Protocol

from coordinator.names import Node
from coordinator.net.slot import Slot
from coordinator.security.principal import Principal


class Caller(Protocol):
    """Where a request came from. What it says of the request holds while the handler runs."""

    @property
    def client_id(self) -> str:
        """What the client calls itself; "" where it does not."""

    @property
    def client_host(self) -> str:
        """Its address, with Java's leading slash ("/127.0.0.1")."""

    @property
    def connection_id(self) -> int:
        """Which connection it is: no other of this process had or will have the number."""

    @property
    def principal(self) -> Principal:
        """Who it has shown itself to be."""

    @property
    def node(self) -> Node:
        """This broker, as this client should know it."""

    @property
    def api_name(self) -> str:
        """Kafka's name of the API of the request at hand."""

    @property
    def api_version(self) -> int:
        """Of the request at hand."""

    @property
    def is_large(self) -> bool:
        """Whether the request at hand has so many elements that others have to be let in while it is answered."""

    def answer_later(self, *, parks: bool) -> Slot:
        """A place for the answer to the request at hand, which is not there yet. `parks`: nothing else of this
        connection is processed until it is."""
