"""Records the output of Kafka's own tools again: `python -m tests.kafka_tools.record [STORY...]`.

The tools run against a groupd, as groupd's counterparts do in the tests. Java and Maven are needed.
"""

import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from tests.kafka_tools.player import RECORDED, STORIES, Result, StoryBrokers, play
from tests.kafka_tools.story import format_story, parse_story
from tests.tools.machine import Machine

ALONE: Final = ("kafka-cluster", "kafka-metadata-quorum")
"""They end the virtual machine where their arguments are wrong."""


def main(names: Sequence[str]) -> int:
    """Record the named stories, or all. Returns the exit code."""
    machine = Machine()

    def run(tool: str, arguments: Sequence[str], stdin: str) -> Result:
        is_alone = tool in ALONE
        done = machine.run_alone(tool, *arguments) if is_alone else machine.run(tool, *arguments, stdin=stdin)
        return Result(done.out, done.err, done.status)

    try:
        with tempfile.TemporaryDirectory() as directory:
            brokers = StoryBrokers(directory)
            for name in names or STORIES:
                path = RECORDED / f"{name}.txt"
                steps = parse_story(path.read_text())
                for step, result in play(steps, brokers.bootstrap(name), run):
                    step.record(*result)
                path.write_text(format_story(steps))
                print(f"{path}: {sum(bool(step.tool) for step in steps)} calls")
            brokers.stop()
    finally:
        machine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
