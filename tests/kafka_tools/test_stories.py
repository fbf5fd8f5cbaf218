"""groupd's tools print what Kafka's own tools printed in the recorded stories, with the same exit codes."""

import pytest

from tests.kafka_tools.calls import run_tool
from tests.kafka_tools.player import RECORDED, STORIES, Result, StoryBrokers, play
from tests.kafka_tools.story import Step, first_error_line, mask_output, parse_story


def _differences(step: Step, result: Result) -> list[str]:
    found = [f"{step.text}"]
    if (out := mask_output(result.out)) != step.out:
        found += ["  Kafka printed:", *(f"    {line}" for line in step.out)]
        found += ["  groupd printed:", *(f"    {line}" for line in out)]
    if first_error_line(result.err) != step.error:
        found += [f"  Kafka's standard error: {step.error}", f"  groupd's standard error: {result.err[:400]}"]
    if result.status != step.status:
        found.append(f"  Kafka's exit code: {step.status}, groupd's: {result.status}")
    return found[1:] and found


@pytest.mark.parametrize("story", STORIES)
def test_the_tools_print_what_kafkas_own_tools_print(brokers: StoryBrokers, story: str) -> None:
    """Every call of the story."""
    steps = parse_story((RECORDED / f"{story}.txt").read_text())
    differences = [
        line for played in play(steps, brokers.bootstrap(story), run_tool) for line in _differences(*played)
    ]
    assert not differences, "\n" + "\n".join(differences)
