"""A handful of calls, by Kafka's own tools and by groupd's, one after the other at the same broker."""

from collections.abc import Iterator

import pytest

from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_tools.calls import run_tool
from tests.shared_fixtures import shared
from tests.tools.machine import Machine

pytestmark = pytest.mark.interop

CALLS = (
    "kafka-topics --describe",
    "kafka-topics --describe --topic living",
    "kafka-console-consumer --topic living --from-beginning --max-messages 6 --formatter-property print.key=true",
    "kafka-console-consumer --topic living --group living --from-beginning --max-messages 6",
    "kafka-consumer-groups --describe --group living",
    "kafka-consumer-groups --describe --group living --members --verbose",
    "kafka-consumer-groups --describe --group living --state --verbose",
    "kafka-consumer-groups --group living --topic living --reset-offsets --to-latest --dry-run",
    "kafka-consumer-groups --list --state --type",
    "kafka-configs --entity-type topics --entity-name living --describe --all",
    "kafka-configs --entity-type brokers --entity-name 1 --describe --all",
    "kafka-broker-api-versions",
    "kafka-get-offsets",
)


@shared(Machine.is_alive)
def machine() -> Iterator[Machine]:
    """The Java virtual machine of all calls."""
    try:
        machine = Machine()
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason
    yield machine
    machine.stop()


def test_both_print_the_same(bootstrap: str, machine: Machine) -> None:
    """To the last blank."""
    at = ("--bootstrap-server", bootstrap)
    create = ("--create", "--topic", "living", "--partitions", "1", "--config", "retention.ms=-1")
    assert machine.run("kafka-topics", *create, *at).status == 0
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    lines = "".join(f"{number}:{number}\n" for number in range(3))
    produced = machine.run("kafka-console-producer", "--topic", "living", *keys, *at, stdin=lines)
    assert produced.status == 0
    assert run_tool("kafka-console-producer", ["--topic", "living", *keys, *at], lines).status == 0
    for call in CALLS:
        tool, *words = call.split()
        theirs = machine.run(tool, *words, *at)
        if "--group" in words and tool == "kafka-console-consumer":
            reset = (
                "--group",
                "living",
                "--topic",
                "living",
                "--reset-offsets",
                "--to-earliest",
                "--execute",
            )
            assert run_tool("kafka-consumer-groups", [*reset, *at]).status == 0
        ours = run_tool(tool, [*words, *at])
        assert (ours.out, ours.status) == (theirs.out, theirs.status), call
