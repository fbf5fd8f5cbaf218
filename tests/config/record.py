"""Record the decisions of Kafka's own classes on every tested value: python -m tests.config.record

Needs Java, Maven and some seconds. Review the recording with git diff.
"""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.config.kafka import DEFINITIONS, Definition
from tests.config.values import KEYS, candidates
from tests.kafka_log.artifacts import broker


def ask(questions: Iterable[str]) -> list[dict[str, Any]]:
    """The definitions of every property, then the answer to each question. Raises CannotBuild."""
    command = [*broker(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "ConfigValues"]
    done = subprocess.run(
        command, input="\n".join(questions), capture_output=True, check=True, encoding="utf-8"
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Writes the recording, a line for each property of Kafka."""
    questions = [
        json.dumps({"of": of, "properties": {key.name: value}})
        for of, keys in KEYS.items()
        for key in keys.values()
        for value in candidates(key)
    ]
    taken: dict[tuple[str, str], list[str]] = {}
    refused: dict[tuple[str, str], list[str]] = {}
    lines: list[str] = []
    answers = ask(questions)
    for answer in answers:
        for name, value in answer.get("properties", {}).items():
            verdicts = taken if answer["refusal"] is None else refused
            verdicts.setdefault((answer["of"], name), []).append(value)
    for answer in answers:
        if "name" in answer:
            key = (answer["of"], answer["name"])
            definition = Definition(
                of=answer["of"],
                name=answer["name"],
                kind=answer["type"],
                default=answer["default"],
                bounds=answer["values"],
                taken=tuple(taken.get(key, ())),
                refused=tuple(refused.get(key, ())),
            )
            lines.append(json.dumps(definition._asdict(), ensure_ascii=False))
    DEFINITIONS.parent.mkdir(exist_ok=True)
    DEFINITIONS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} properties, {len(questions)} values")


if __name__ == "__main__":
    main()
