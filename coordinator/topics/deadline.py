"""The time that a client gives for a change of topics. Source: Kafka's `ControllerApis`, `QuorumController`."""

from coordinator.topics.refusal import Refusal
from protocol.errors import ErrorCode


def out_of_time(timeout_ms: int) -> Refusal | None:
    """What every topic of such a request is refused with, good or bad, when there is no time at all for it.

    Changes here are quick: there is enough in any that is above 0.
    """
    return Refusal(ErrorCode.REQUEST_TIMED_OUT) if timeout_ms <= 0 else None
