"""Exceptions that end a tool, each with its output and exit code, and error codes as the exceptions that
Kafka's tools print (class and message). Source: Kafka's `Errors`.
"""

from typing import Final

from coordinator.core.message_text import printable
from protocol.error_codes import RETRIABLE, ErrorCode


class UsageError(Exception):
    """Invalid arguments. The error is printed on standard error with the options; the exit code is 1, as in
    Kafka."""

    def __init__(self, message: str, *, hint: str = "", is_unrecognized: bool = False) -> None:
        """Create an error.

        Args:
            message: the text of Kafka's tool.
            hint: a sentence of groupd's own after it.
            is_unrecognized: whether Kafka's tool does not have the option either.
        """
        super().__init__(message)
        self.hint = hint
        self.is_unrecognized = is_unrecognized


class ToolFailure(Exception):
    """A failed call, with its message and exit code."""

    def __init__(self, message: str, *, is_on_stdout: bool = False, exit_code: int = 1) -> None:
        """Create a failure. `is_on_stdout` tells whether Kafka's tool prints the message on standard output."""
        super().__init__(message)
        self.is_on_stdout = is_on_stdout
        self.exit_code = exit_code


class KafkaError(Exception):
    """An error of a broker, or no response in time. `str()` is the message of Kafka's exception."""

    def __init__(
        self, message: str, java_class: str, *, is_retriable: bool = False, error_code: int = 0
    ) -> None:
        """Create an error. `java_class` is the name of Kafka's exception, such as `TopicExistsException`;
        `error_code` is its code in responses.
        """
        super().__init__(message)
        self.java_class = java_class
        self.is_retriable = is_retriable
        self.error_code = error_code

    @property
    def qualified(self) -> str:
        """The exception in Java's form: class and message."""
        return f"org.apache.kafka.common.errors.{self.java_class}: {self}"


class ToolExit(Exception):
    """The successful end of the tool, with exit code 0."""


_MAX_PRINTED: Final = 1000

_CLASSES: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}
"""The classes with a name that does not follow from the name of the error code."""


def error_from_code(code: int, message: str | None = None) -> KafkaError:
    """Return the exception for an error code. `message` is the broker's own message, if it sent one."""
    try:
        error = ErrorCode(code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(
        printable(message, _MAX_PRINTED) if message else error.message,
        _class_name(error),
        is_retriable=is_retriable(error),
        error_code=error,
    )


def is_retriable(code: int) -> bool:
    """Return whether Kafka's clients retry after an error."""
    return code in RETRIABLE


def _class_name(error: ErrorCode) -> str:
    words = error.name.lower().split("_")
    return _CLASSES.get(error) or "".join(map(str.capitalize, words)) + "Exception"
