"""How a tool ends without success: each exception becomes text on a stream and an exit code in `dispatch`."""


class UsageError(Exception):
    """The arguments make no sense: printed on standard error, with the options; exit code 1, as Kafka's tools."""

    def __init__(self, message: str, *, hint: str = "", is_unrecognized: bool = False) -> None:
        """In: a sentence; an addition of ours to it; whether Kafka's tool does not have the option at all."""
        super().__init__(message)
        self.hint = hint
        self.is_unrecognized = is_unrecognized


class ToolFailure(Exception):
    """The call fails: a message and an exit code."""

    def __init__(self, message: str, *, is_on_stdout: bool = False, exit_code: int = 1) -> None:
        """In: the text as it is printed; whether Kafka's tool prints it on standard output."""
        super().__init__(message)
        self.is_on_stdout = is_on_stdout
        self.exit_code = exit_code


class KafkaError(Exception):
    """A broker answered an error, or no broker answered in time. `str()` is the message of Kafka's exception."""

    def __init__(
        self, message: str, java_class: str, *, is_retriable: bool = False, error_code: int = 0
    ) -> None:
        """In: the message; the name of Kafka's exception, such as `TopicExistsException`; its code in responses."""
        super().__init__(message)
        self.java_class = java_class
        self.is_retriable = is_retriable
        self.error_code = error_code

    @property
    def qualified(self) -> str:
        """The exception as Java prints it: class and message."""
        return f"org.apache.kafka.common.errors.{self.java_class}: {self}"


class ToolEnd(Exception):
    """The tool is done, with exit code 0."""
