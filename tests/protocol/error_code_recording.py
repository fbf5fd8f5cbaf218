"""The errors of Kafka's own `Errors`: python -m tests.protocol.error_code_recording records them (Java, Maven)."""

import os
import subprocess
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.interop.build import kafka

_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
_RECORDING: Final = os.path.join(_FOLDER, "error-codes-4.4.0.tsv")


class RecordedErrorCode(NamedTuple):
    """An error of Kafka."""

    code: int
    name: str
    is_retriable: bool
    message: str


def read() -> Iterator[RecordedErrorCode]:
    """Read the recording."""
    with open(_RECORDING, encoding="utf-8") as lines:
        for line in lines:
            code, name, retriable, message = line.rstrip("\n").split("\t")
            yield RecordedErrorCode(int(code), name, retriable == "true", message)


def record() -> None:
    """Print Kafka's errors into the recording. Raises CannotBuild."""
    command = kafka("kafka-error-codes", os.path.join(_FOLDER, "java"), ("ErrorCodes.java",))
    with open(_RECORDING, "w", encoding="utf-8") as recording:
        subprocess.run([*command, "ErrorCodes"], stdout=recording, check=True)


if __name__ == "__main__":
    record()
    print(f"{sum(1 for _ in read())} errors")
