"""A recording without hosts and user data plays as it did."""

from msgspec import json

from coordinator.control.recording.group_recording import GroupRecording
from coordinator.control.recording.recorded_shard import RecordedShard
from coordinator.control.replay.recording_file import read_recording, scrub_recording
from coordinator.control.replay.replay_comparison import compare_recording, format_comparison
from coordinator.core.outcome import Context, Now
from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_subscription,
    find_subscribed_topics,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.control.replay.recorder import BYTES, lines_of
from tests.control.replay.runs import run
from tests.group.new_shard import new_shard

SECRET = b"what nobody is to know"
HOST = "/10.11.12.13"
UUID = "00000000-0000-0000-0000-000000000001"


def joined(metadata: bytes, protocol_type: str = "consumer") -> GroupRecording:
    """Return the recording of a group with one join."""
    recording = GroupRecording("g", new_shard(), Now(0, 1), BYTES)
    tap = RecordedShard(new_shard(), recording)
    for waiter, member_id in enumerate(("", f"a-{UUID}")):
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="sticky", metadata=metadata)],
        )
        tap.handle(request, Context(waiter, 5, "a", HOST, UUID), Now(10, 11))
    return recording


def test_user_data_and_hosts_are_gone_and_topics_are_not() -> None:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["orders"], user_data=SECRET), 1)
    before = lines_of(joined(metadata))
    after = list(scrub_recording(before))
    recorded = read_recording(after)
    assert compare_recording(recorded).different is None, format_comparison(compare_recording(recorded))
    request = recorded.lines[0].decode_field("body")
    scrubbed_metadata = request.protocols[0].metadata
    assert SECRET not in scrubbed_metadata
    assert find_subscribed_topics(scrubbed_metadata) == ["orders"]
    assert len(decode_subscription(scrubbed_metadata).user_data or b"") == len(SECRET)
    assert HOST[1:] in b"".join(before).decode()
    assert HOST[1:] not in b"".join(after).decode()


def test_foreign_bytes_are_scrubbed_completely() -> None:
    for metadata, protocol_type in ((SECRET, "connect"), (SECRET, "consumer")):
        after = list(scrub_recording(lines_of(joined(metadata, protocol_type))))
        recorded = read_recording(after)
        assert compare_recording(recorded).different is None
        assert SECRET not in recorded.lines[0].decode_field("body").protocols[0].metadata


def test_simulated_runs_play_as_before() -> None:
    for of_consumers in (False, True):
        for begins_after in (0, 15):
            done = run(2, of_consumers=of_consumers, begins_after=begins_after)
            with done.core():
                for recording in done.recorder.recordings:
                    after = list(scrub_recording(lines_of(recording)))
                    comparison = compare_recording(read_recording(after))
                    assert comparison.different is None, format_comparison(comparison)
                    assert "127.0.0.1" not in json.encode(b"".join(after).decode()).decode()
