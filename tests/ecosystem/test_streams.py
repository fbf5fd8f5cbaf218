"""A Kafka Streams application counts words on groupd and loses an instance."""

from pathlib import Path

import pytest

from tests.ecosystem.conftest import Start
from tests.ecosystem.word_count import Counts, WordCount
from tests.interop.broker import Broker, eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_a_word_count_survives_an_instance(broker: Broker, start: Start, tmp_path: Path) -> None:
    """Two instances share the work, one is killed, the other takes over with its state: the counts are right."""
    application = WordCount(broker, start, tmp_path, "word-count", "at_least_once")
    expected = application.write_lines(1)
    counts = Counts(broker, application.output)
    try:
        counts.wait("the counts", expected, application.report)
        # At least once: only committed input is not counted again after a kill.
        read = counts.ends(application.lines) | counts.ends(application.repartition)
        broker.wait_committed(application.name, read)
        application.instances[0].kill()
        expected += application.write_lines(2)
        counts.wait("the counts after the kill", expected, application.report)
    finally:
        counts.close()
    (survivor,) = application.members()
    assert survivor.startswith(application.name)


def test_exactly_once_no_count_comes_twice(broker: Broker, start: Start, tmp_path: Path) -> None:
    """With exactly_once_v2 an instance is killed amid its work: committed counts rise only by the input."""
    application = WordCount(broker, start, tmp_path, "word-count-once", "exactly_once_v2")
    counts = Counts(broker, application.output)
    try:
        expected = application.write_lines(1)
        eventually("the first counts", lambda: bool(counts.read()))
        expected += application.write_lines(2)
        application.instances[0].kill()
        expected += application.write_lines(3)
        counts.wait("the counts after the kill", expected, application.report)
        assert not counts.fallen, counts.fallen
    finally:
        counts.close()
