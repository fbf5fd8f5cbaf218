"""Records the groups of tests, and replays them in the process of the tests."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from tests.interop.broker import Broker

ANSWER_TIMEOUT_S = 60


@contextmanager
def replayed(broker: Broker, group_name: str) -> Iterator[None]:
    """Record a group, and compare the replay at the end. Do nothing if the broker is not a groupd of the tests."""
    if not broker.is_groupd:
        yield
        return
    _ask(broker, "PUT", group_name)
    try:
        yield
        recorded = read_recording(_ask(broker, "GET", group_name).splitlines(keepends=True))
    finally:
        _ask(broker, "DELETE", group_name)
    comparison = compare_recording(recorded)
    assert comparison.different is None, format_comparison(comparison)
    assert comparison.inputs == recorded.inputs > 0


def _ask(broker: Broker, method: str, group_name: str) -> bytes:
    url = f"http://{broker.http}/v1/recordings/{quote(group_name, safe='')}"
    headers = {"Content-Type": "application/json"}
    data = b'{"bytes": 67108864}' if method == "PUT" else None
    request = urllib.request.Request(url, data, headers if data else {}, method=method)
    with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
        return bytes(answer.read())
