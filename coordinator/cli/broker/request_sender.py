"""What commands need of a broker or of a cluster to make requests."""

from typing import Any, Protocol


class RequestSender(Protocol):
    """A connection to one broker, or a client of a cluster."""

    def ask(self, request: Any) -> Any:
        """Send a request to a broker and return its answer."""
