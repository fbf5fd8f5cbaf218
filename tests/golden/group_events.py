"""Events of the recorded groups as users see them: event stream, summary, metrics page, and hits of a fault.

The events are those of a replay of the golden recordings, so that they are the same in each run.
"""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

from msgspec import convert, json

from coordinator.broker.transaction_log_lines import TransactionEventObserver
from coordinator.control.clock.event_capture import summarize_events
from coordinator.control.event_stream import EventStream
from coordinator.control.faults.fault_matchers import EventMatcher
from coordinator.control.faults.fault_rule import FaultRule
from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.recording_player import PlayedInput, RecordingPlayer
from coordinator.control.replay.replay_comparison import compare_recording
from coordinator.core.outcome import Now
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.group.group_event_types import GroupEvent
from coordinator.http.api.event_stream_routes import format_event
from coordinator.transactions.transaction_event_types import TransactionCompleted, TransactionRequestRefused
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition
from tests.golden.recording import GROUPS, file_name
from tests.golden.versions import golden_path, write_json
from tests.http.api.api_port import serving_api

FILE: Final = "group_events.json"
FAULT: Final = {
    "name": "failover-with-a-new-generation",
    "on": {"event": ["GroupStabilized", "EpochBumped", "Member*"], "generation": ">=2"},
    "do": {"failover": {"loading": 1}},
}
TRANSACTION_EVENTS: Final = (
    TransactionCompleted("payments", 1, 0, True, 20, 10, 2),
    TransactionRequestRefused("payments", 1, 0, "EndTxn", ErrorCode.INVALID_TXN_STATE, "Empty", None),
)
METRICS: Final = ("groupd_group_events_total", "groupd_transaction_events_total")


def generate(version: str) -> None:
    """Replaces the file of events."""
    write_json(version, FILE, describe_events(version, FAULT))


def describe_events(version: str, fault: Any) -> dict[str, Any]:
    """Return the public form of the events in the recordings of a version, and the events that trigger a fault."""
    events = _replay(version)
    matcher = EventMatcher(convert(fault, FaultRule).on)  # type: ignore[arg-type]
    return {
        "fault": fault,
        "triggers": [number for number, (event, _) in enumerate(events) if matcher.matches_event(event)],
        "stream": _stream(events),
        "summary": summarize_events(event for event, _ in events),
        "metrics": asyncio.run(_metrics([event for event, _ in events])),
    }


def _replay(version: str) -> list[tuple[GroupEvent, Now]]:
    events: list[tuple[GroupEvent, Now]] = []

    def add(_: RecordingPlayer, played: PlayedInput) -> None:
        events.extend((event, played.now) for event in (played.outcome.events if played.outcome else ()))

    for group_id in GROUPS:
        with open(golden_path(version, file_name(group_id)), "rb") as file:
            compare_recording(read_recording(file.readlines(), any_version=True), on_played=add)
    return events


def _stream(events: list[tuple[GroupEvent, Now]]) -> list[dict[str, Any]]:
    """Return the events of the stream, without the sentence and the time at which they were sent."""
    stream, found = EventStream(), []
    for number, (event, now) in enumerate(events):
        stream.on_event(0, event, number, now)
    for each in stream.list_recent():
        lines = dict(line.split(": ", 1) for line in format_event(each, "0").decode().splitlines() if line)
        value = json.decode(lines["data"])
        del value["at_ms"], value["line"]
        found.append({"event": lines["event"], "data": value})
    return found


async def _metrics(events: list[GroupEvent]) -> list[str]:
    """Return the lines of the metrics page that count events."""
    async with serving_api() as api:
        for event in events:
            api.server.metrics.count_event(event)
        partition: Any = SimpleNamespace(name=TopicPartition(TRANSACTION_STATE, 0))
        observer = TransactionEventObserver(api.server.metrics, api.server.line_limit)
        observer.observe(partition, TRANSACTION_EVENTS, 0, Now(0, 0))
        page = (await api.call("GET", "/metrics")).body.decode()
    return [line for line in page.splitlines() if line.startswith(METRICS)]
