"""The results of handlers and machines that are not responses.

The result of a request is its response, AWAITING_DISK (the response exists and waits for the disk) or BLOCKED
(the response waits for something else: other members, records, a timer).
"""

from enum import Enum
from typing import Final


class DeferredResponse(Enum):
    """The response comes later. It goes to the deferred reply of the request."""

    AWAITING_DISK = "held"
    """The response is complete and waits for the disk. The connection processes later requests meanwhile."""
    BLOCKED = "parked"
    """The response waits for other members, records or a timer. As in Kafka, the connection processes no other
    request until then.
    """


class NoResponse(Enum):
    """There will be no response."""

    NO_RESPONSE = "a Produce with acks 0: nothing is sent"
    CLOSE_CONNECTION = "the connection is closed instead of an answer"


AWAITING_DISK: Final = DeferredResponse.AWAITING_DISK
BLOCKED: Final = DeferredResponse.BLOCKED
NO_RESPONSE: Final = NoResponse.NO_RESPONSE
CLOSE_CONNECTION: Final = NoResponse.CLOSE_CONNECTION
