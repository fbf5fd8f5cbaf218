"""What an asker is told where the answer itself is not there, or is none. Values, so that they can be handed on.

A request is *answered* (its response is the result), *held* (its response is made and waits for the disk) or
*parked* (whoever was asked waits for something else before it answers: other members, records, a timer).
"""

from enum import Enum
from typing import Final


class Later(Enum):
    """The answer comes later, to whom the asker named for that."""

    HELD = "held"
    """It is made, and waits for the disk. Requests after it need not wait."""
    PARKED = "parked"
    """It is not made yet. As in Kafka, nothing else of its connection is processed until then."""


class Silence(Enum):
    """There is no answer, and never will be."""

    NO_ANSWER = "a Produce with acks 0: nothing is sent"
    GOODBYE = "the connection is closed instead of an answer"


HELD: Final = Later.HELD
PARKED: Final = Later.PARKED
NO_ANSWER: Final = Silence.NO_ANSWER
GOODBYE: Final = Silence.GOODBYE
