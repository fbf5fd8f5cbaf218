"""An error code with a message for one part of a request. Source: Kafka's ApiError."""

from protocol.error_codes import ErrorCode


class ApiError(Exception):
    """An error code for the response, and one sentence for the person who reads it (None where Kafka sends
    none).
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


def find_timeout_error(timeout_ms: int) -> ApiError | None:
    """What every topic of such a request is refused with, good or bad, when there is no time at all for it.

    Changes here are quick: there is enough in any that is above 0.
    """
    return ApiError(ErrorCode.REQUEST_TIMED_OUT) if timeout_ms <= 0 else None
