"""`groupd wire` as a command: the fields of a message, their positions, and the position of the first invalid
byte."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import groupd
from protocol.apis import ApiKey
from protocol.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions, encode_subscription
from protocol.framing import encode_request
from protocol.message_annotation import AnnotatedMessage, annotate, annotate_request, annotate_response
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.group_record_serde import encode_key, encode_value
from protocol.reference_codec import encode
from protocol.schema import layout, message_info
from storage.batch import encode_batch
from storage.record import Record
from tests.frames import recording
from tests.protocol.declared import ALL, full, name

FRAMES = Path(recording.__file__).parent / "kafka-4.4.0.jsonl"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(groupd, ["wire", *arguments], input=stdin)


def join() -> JoinGroupRequest:
    subscription = ConsumerProtocolSubscription(
        topics=["orders"], owned_partitions=[TopicPartitions(topic="orders", partitions=[0, 2])]
    )
    return JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription, 1))],
        reason="first",
    )


def fields(result: Result) -> dict[str, Any]:
    return {entry["field"]: entry for entry in map(json.loads, result.output.splitlines())}


def test_every_field_is_printed_with_its_place_type_and_value() -> None:
    result = run("decode", "JoinGroupRequest", "9", "--hex", encode(join(), 9).hex())
    assert result.exit_code == 0, result.output
    lines = [re.sub(r" +", " ", line.strip()) for line in result.output.splitlines()]
    assert lines[0] == '0 8 group_id string "billing"'
    assert lines[1] == "8 4 session_timeout_ms int32 45000"
    assert any(line.endswith('name string "range"') for line in lines)
    assert any(re.match(r"\d+ 6 reason string\? \"first\"", line) for line in lines)


def test_consumer_protocol_bytes_of_a_join_are_decoded() -> None:
    found = fields(run("decode", "JoinGroupRequest", "9", "--json", "--hex", encode(join(), 9).hex()))
    inner = "protocols[0].metadata."
    assert found[inner + "version"]["value"] == 1
    assert found[inner + "topics[0]"]["value"] == "orders"
    assert found[inner + "owned_partitions[0].partitions[1]"]["value"] == 2
    data = encode(join(), 9)
    place = found[inner + "topics[0]"]
    assert data[place["offset"] : place["offset"] + place["length"]] == b"\0\x06orders"


def test_a_frame_has_a_header() -> None:
    frame = bytes(encode_request(ApiKey.JOIN_GROUP, 9, 77, "kcat", join())[4:])
    found = fields(run("decode", "JoinGroupRequest", "9", "--frame", "--json", "--hex", frame.hex()))
    assert (found["api_key"]["value"], found["correlation_id"]["value"]) == (11, 77)
    assert found["client_id"]["value"] == "kcat"
    assert found["group_id"]["value"] == "billing"
    assert run("decode", "SyncGroupRequest", "5", "--frame", "--hex", frame.hex()).exit_code == 2


def test_bytes_are_read_from_a_file_or_standard_input(tmp_path: Path) -> None:
    data = encode(join(), 9)
    (tmp_path / "body").write_bytes(data)
    from_file = run("decode", "JoinGroupRequest", "9", str(tmp_path / "body"))
    assert from_file.exit_code == 0
    assert from_file.output == run("decode", "JoinGroupRequest", "9", "-", stdin=data).output
    assert run("decode", "JoinGroupRequest", "9", str(tmp_path / "none")).exit_code == 2
    assert run("decode", "JoinGroupRequest", "9").exit_code == 2


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_fields_before_the_damage_are_printed_with_the_reason(cut: int) -> None:
    data = encode(join(), 9)[:-cut]
    result = run("decode", "JoinGroupRequest", "9", "--hex", data.hex())
    assert result.exit_code == 1
    assert '"billing"' in result.output
    assert result.output.splitlines()[-1].startswith("invalid: ")


def test_bytes_after_the_end_are_no_part_of_the_message() -> None:
    result = run("decode", "JoinGroupRequest", "9", "--hex", (encode(join(), 9) + b"\0").hex())
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["JoinGroupRequst", "9", "--hex", "00"], "did you mean JoinGroupRequest?"),
        (["JoinGroupRequest", "99", "--hex", "00"], "0 to 9"),
        (["JoinGroupRequest", "9", "--hex", "0g"], "hexadecimal"),
        (["ConsumerProtocolSubscription", "1", "--frame", "--hex", "00"], "no frame"),
    ],
)
def test_usage_that_cannot_be_is_named(arguments: list[str], told: str) -> None:
    result = run("decode", *arguments)
    assert result.exit_code == 2
    assert told in result.output


def test_text_of_clients_cannot_steer_the_terminal() -> None:
    request = join()
    request.group_id = "g\x1b[2J\n  0 4 faked int32 1"
    result = run("decode", "JoinGroupRequest", "9", "--hex", encode(request, 9).hex())
    assert "\x1b" not in result.output
    assert not any(line.split()[2:3] == ["faked"] for line in result.output.splitlines())


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first captured exchange of each version of each API, in the form of the whole capture."""
    origin, *lines = FRAMES.read_text().splitlines(keepends=True)
    first: dict[tuple[str, int], str] = {}
    for line in lines:
        entry = json.loads(line)
        first.setdefault((entry["api"], entry["version"]), line)
    path = tmp_path_factory.mktemp("frames") / FRAMES.name
    path.write_text("".join([origin, *first.values()]))
    return path


def test_a_capture_of_real_clients_is_printed_whole(capture: Path) -> None:
    result = run("dump", "--json", str(capture))
    assert result.exit_code == 0, result.output[-500:]
    entries = list(map(json.loads, result.output.splitlines()))
    assert {entry["line"] for entry in entries} == set(range(2, len(capture.read_text().splitlines()) + 1))
    messages = {entry["message"] for entry in entries}
    assert messages >= {"JoinGroupRequest", "JoinGroupResponse", "FetchResponse"}


def test_only_the_requested_apis_are_printed(capture: Path) -> None:
    result = run("dump", "--api", "Heartbeat", str(capture))
    heads = [line for line in result.output.splitlines() if line.startswith("line ")]
    assert heads
    assert all(" Heartbeat" in line for line in heads)
    assert run("dump", "--api", "Heartbeet", str(capture)).exit_code == 2


KEY = encode_key(OffsetCommitKey(group="g", topic="orders", partition=3))
VALUE = encode_value(OffsetCommitValue(offset=42, metadata="", commit_timestamp=5), 3)


def test_a_record_is_printed_by_key_and_value() -> None:
    result = run("record", "--json", "--hex", KEY.hex(), "--value", VALUE.hex())
    assert result.exit_code == 0
    said = {(e["part"], e["field"]): e.get("value") for e in map(json.loads, result.output.splitlines())}
    assert said["key", "type"] == 1
    assert said["key", "topic"] == "orders"
    assert said["value", "offset"] == 42


def test_the_records_of_a_segment_are_printed(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    records = [Record(-1, 5, KEY, VALUE), Record(-1, 5, KEY, None), Record(-1, 5, b"\0\x63x", b"\0\0")]
    (directory / "00000000000000000000.log").write_bytes(encode_batch(records))
    result = run("record", str(directory))
    assert result.exit_code == 0, result.output
    assert result.output.count("batch at byte 0") == 3
    assert "a tombstone" in result.output
    assert "orders" in result.output
    (directory / "00000000000000000000.log").write_bytes(encode_batch(records)[:-1])
    assert run("record", str(directory)).exit_code == 1


def test_an_invalid_record_is_named() -> None:
    assert run("record", "--hex", KEY[:-1].hex()).exit_code == 1
    assert run("record", "--hex", KEY.hex(), "--value", (b"\0\x09" + VALUE[2:]).hex()).exit_code == 1
    assert run("record", "--hex", "00").exit_code == 1


def covered(annotated: AnnotatedMessage, begin: int, end: int) -> None:
    """The notes of one depth follow each other, and lie within the field that they are part of."""
    assert annotated.problem is None, annotated.problem
    open_until = [end]
    position = begin
    for note in annotated.notes:
        assert begin <= note.offset <= note.end <= end, note
        del open_until[note.depth + 1 :]
        assert note.end <= open_until[-1], note
        assert note.offset >= position or note.depth, note
        open_until.append(note.end)
        if note.depth == 0:
            position = note.end


@pytest.mark.parametrize("declared", ALL, ids=name)
def test_the_fields_of_every_message_lie_in_its_bytes_in_order(declared: tuple[type[Any], int]) -> None:
    cls, version = declared
    data = encode(full(cls, version), version)
    begins_at = 3
    annotated = annotate(cls, version, b"---" + data, begins_at)
    covered(annotated, begins_at, begins_at + len(data))
    assert {note.name for note in annotated.notes if note.depth == 0} == _names(cls, version)


def _names(cls: type[Any], version: int) -> set[str]:
    assert version in message_info(cls).versions
    return {entry.name for entry in layout(cls, version)}


def test_captured_frames_are_covered_by_their_fields() -> None:
    for exchange in recording.read():
        covered(annotate_request(exchange.request)[2], 0, len(exchange.request))
        annotated = annotate_response(exchange.api.key, exchange.version, exchange.response)
        covered(annotated, 0, len(exchange.response))


def test_the_daemon_never_loads_construct() -> None:
    script = "import sys, coordinator.daemon, coordinator.cli.serve; sys.exit('construct' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
