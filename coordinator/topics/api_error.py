"""An error code with a message for one part of a request. Source: Kafka's ApiError."""

from protocol.error_codes import ErrorCode


class ApiError(Exception):
    """An error code for the response, with a message, or None if Kafka sends no message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


def find_timeout_error(timeout_ms: int) -> ApiError | None:
    """Return the error for every topic of a request with a timeout of 0 or less; None otherwise.

    Changes are fast enough for every positive timeout.
    """
    return ApiError(ErrorCode.REQUEST_TIMED_OUT) if timeout_ms <= 0 else None
