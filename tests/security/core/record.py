"""Record the decisions of Kafka's own authorizer about random sets of ACLs: python -m tests.security.core.record

Needs Java, Maven and some seconds.
"""

import json
import os
import random
import subprocess
from typing import Any, Final

from tests.interop.build import kafka
from tests.security.core.cases import RECORDING, Case, random_case, write

JAVA: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")
CASES: Final = 5000
LINES_KEPT: Final = 40
"""Of so many cases the lines of the audit log are kept."""


def ask(asked: list[Case]) -> list[dict[str, Any]]:
    """The answers to each case. Raises CannotBuild."""
    command = kafka("kafka-authorizer", JAVA, ("Decisions.java",))
    options = ("logFile=System.out", "defaultLogLevel=off", "log.kafka.authorizer.logger=debug")
    done = subprocess.run(
        [*command, *(f"-Dorg.slf4j.simpleLogger.{option}" for option in options), "Decisions"],
        input="".join(f"{json.dumps(case.in_json())}\n" for case in asked),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Writes the recording."""
    choice = random.Random(7)
    cases = [random_case(choice) for _ in range(CASES)]
    answers = ask(cases)
    write(zip(cases, answers, strict=True), LINES_KEPT)
    failed = sum(decision is None for answer in answers for decision in answer["decisions"])
    print(f"{len(cases)} cases, {failed} decisions that fail, {os.path.getsize(RECORDING)} bytes")


if __name__ == "__main__":
    main()
