"""The shell user's way: kcat's metadata, produce, consume, query and group modes."""

import json
import subprocess

import pytest

from tests.interop.broker import Broker
from tests.interop.build import CannotBuild, tool
from tests.interop.requirement import lacking

pytestmark = pytest.mark.interop


def _kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    try:
        program = tool("kcat")
    except CannotBuild as reason:
        lacking(str(reason))
        raise AssertionError("unreachable") from reason
    done = subprocess.run(
        [program, "-b", broker.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # the keys of internal records are binary
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata_lists_the_topic(broker: Broker, topic: str) -> None:
    """-L names the broker and the topic's partitions."""
    broker.create_topic(topic, 3)
    seen = json.loads(_kcat(broker, "-L", "-J", "-t", topic))
    assert broker.bootstrap in [node["name"] for node in seen["brokers"]]
    assert [(t["topic"], len(t["partitions"])) for t in seen["topics"]] == [(topic, 3)]


def test_what_is_produced_is_consumed(broker: Broker, topic: str) -> None:
    """-P writes keys and values, -C reads them, -Q tells the offsets."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", "zstd", stdin="a:one\nb:two\nc:three\n")
    assert _kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-K", ":") == "a:one\nb:two\nc:three\n"
    assert _kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e") == "three\n"
    assert "offset 3" in _kcat(broker, "-Q", "-t", f"{topic}:0:-1")
    assert "offset 0" in _kcat(broker, "-Q", "-t", f"{topic}:0:-2")


def test_group_mode_resumes(broker: Broker, topic: str, group_name: str) -> None:
    """-G consumes to the end, commits when it leaves, and the next run goes on from there."""
    broker.create_topic(topic, 1)
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-u"]
    _kcat(broker, "-P", "-t", topic, stdin="one\ntwo\n")
    assert _kcat(broker, *settings, "-G", group_name, topic) == "one\ntwo\n"
    _kcat(broker, "-P", "-t", topic, stdin="three\n")
    assert _kcat(broker, *settings, "-G", group_name, topic) == "three\n"


def test_internal_topic_can_be_read(broker: Broker, topic: str, group_name: str) -> None:
    """A committed offset is a record of __consumer_offsets that a consumer can fetch."""
    broker.create_topic(topic, 1)
    _kcat(broker, "-P", "-t", topic, stdin="one\n")
    _kcat(broker, "-X", "auto.offset.reset=earliest", "-e", "-u", "-G", group_name, topic)
    seen = _kcat(broker, "-C", "-t", "__consumer_offsets", "-o", "beginning", "-e", "-f", "%k\\n")
    assert group_name in seen
