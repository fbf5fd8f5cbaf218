"""Record the assignments of Kafka's own classes: python -m tests.group.modern.record

Needs Java, Maven and some seconds.
"""

import json
import os
import subprocess
from typing import Any, Final

from tests.group.modern.histories import History, histories
from tests.group.modern.recorded import RECORDING, write
from tests.interop.build import kafka

JAVA: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")
GROUPS: Final = 220


def ask(asked: list[History]) -> list[list[dict[str, Any]]]:
    """Return Kafka's answers to the assignments of each history. Raises CannotBuild."""
    command = kafka("kafka-assignments", JAVA, ("Assignments.java",))
    done = subprocess.run(
        [*command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "Assignments"],
        input="".join(f"{json.dumps(history)}\n" for history in asked),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Write the recording."""
    asked = list(histories(GROUPS))
    answers = ask(asked)
    write(zip(asked, answers, strict=True))
    print(f"{len(asked)} groups, {sum(map(len, answers))} assignments, {os.path.getsize(RECORDING)} bytes")


if __name__ == "__main__":
    main()
