"""What this broker shows to others of the cluster, and what it says of those that it does not get on with.

Source: Kafka's `ChannelBuilders.clientChannelBuilder`.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Final

from coordinator.net.peer import printable
from coordinator.security.sasl_login import Login

_LOG: Final = logging.getLogger("Cluster")
_MOST_SAID: Final = 500


class Unanswered(Exception):
    """A broker has not done what it was asked, or it is not known that it has."""


class Unreachable(Unanswered):
    """It did not answer."""


class NotLetIn(Unanswered):
    """It does not know this one, or the other way round: nothing was asked."""


class Denied(Unanswered):
    """It knows this one, and denies it what brokers ask of each other."""


class PeerSecurity:
    """The same for all connections to other brokers. All methods belong to the event loop's thread."""

    def __init__(self, context: Callable[[], ssl.SSLContext | None], login: Login | None) -> None:
        """In: what the next handshake is made with, None for no TLS; who logs in by SASL, None for nobody."""
        self._context = context
        self.login = login
        self._refused: dict[int, str] = {}
        """Why, by node id of those that do not let this one in, or that it does not trust."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the next handshake; None: there is no TLS."""
        return self._context()

    def refused(self, node_id: int, error: NotLetIn) -> None:
        """One line, however often that happens, until there is another reason."""
        reason = printable(str(error), _MOST_SAID)
        if self._refused.get(node_id) != reason:
            self._refused[node_id] = reason
            _LOG.error("Transactions wait: this broker does not get on with broker %d: %s", node_id, reason)

    def let_in(self, node_id: int) -> None:
        """It answered: tells so, if a line had said that it would not."""
        if self._refused.pop(node_id, None) is not None:
            _LOG.info("Broker %d lets this broker in again; transactions go on", node_id)
