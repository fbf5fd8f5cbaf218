"""What a driver in Python does with the commands of `--mode transact`."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.interop.clients.conversation import Commands, emit


class Transactor(Protocol):
    """A transactional producer of one client; errors are exceptions of that client."""

    def init(self) -> None:
        """Get the producer id, which fences earlier producers with the transactional id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def produce(self, topic: str, values: list[str]) -> None:
        """Write records, and wait until they are acknowledged."""

    def offsets(self, topic: str, partition: int, offset: int) -> None:
        """Add the offset that the group has consumed to."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Close the client."""


def serve(
    transactor: Transactor, commands: Commands, failure: type[Exception], tell: Callable[[Any], None]
) -> None:
    """Execute commands until `leave`. `failure` is the client's exception; `tell` emits one as `error`."""
    while True:
        command = commands.wait()
        try:
            match command:
                case ["init" | "begin" | "commit" | "abort" as word]:
                    getattr(transactor, word)()
                case ["produce", topic, value, count]:
                    transactor.produce(topic, [f"{value}-{number}" for number in range(int(count))])
                case ["offsets", topic, partition, offset]:
                    transactor.offsets(topic, int(partition), int(offset))
                case ["leave"]:
                    transactor.close()
                    emit("closed")
                    return
                case _:
                    raise AssertionError(f"no such command: {command}")
        except failure as error:
            tell(error)
        else:
            emit("done", command=command[0])
