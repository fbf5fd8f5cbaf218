"""The results of handlers and machines that are not responses.

A request is answered (the result is its response), AWAITING_DISK (its response exists and waits for the disk) or
BLOCKED (the response waits for something else: other members, records, a timer).
"""

from enum import Enum
from typing import Final


class DeferredResponse(Enum):
    """The response comes later, to the reply that the request has deferred."""

    AWAITING_DISK = "held"
    """The response is complete, and waits for the disk. Requests after it need not wait."""
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
