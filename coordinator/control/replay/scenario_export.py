"""Exports a recording as a scenario of tests/scenarios: its commands without their outcomes, which the runner adds.

A scenario has no connections, hosts or user data, and its timers fire when they are due. A comment lists
every input that a scenario cannot express.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from coordinator.control.replay.client_names import ClientNames
from coordinator.control.replay.recording_file import BadRecording, RecordingFile, RecordingLine
from coordinator.control.replay.recording_player import RecordingPlayer
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context
from coordinator.group.group_requests import FetchOffsets
from protocol.consumer_protocol import PROTOCOL_TYPE, TopicPartitions, decode_assignment, decode_subscription
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.primitives import Malformed

_CONFIG: Final = {
    "delay": ("group.initial.rebalance.delay.ms", "ms"),
    "max-size": ("group.max.size", ""),
    "retention": ("offsets.retention.minutes", "m"),
    "min-session": ("group.min.session.timeout.ms", "ms"),
    "metadata-max": ("offset.metadata.max.bytes", ""),
}
"""The properties that a scenario can set, with the names and units that it uses."""
_ADMIN: Final = "admin"


def format_scenario(recorded: RecordingFile) -> str:
    """Return the scenario. Raises BadRecording if it cannot be expressed."""
    if recorded.header["start"] != "empty":
        raise BadRecording(
            "a scenario needs a recording that begins with a new group; this one begins with an existing group"
        )
    teller = _ScenarioWriter(RecordingPlayer(recorded))
    config = recorded.header["config"]
    settings = (f"{word}={config[name]}{unit}" for word, (name, unit) in _CONFIG.items())
    name = printable(recorded.group_id)
    lines = [f"# A recording of group {name}: {recorded.inputs} inputs", f"> config {' '.join(settings)}"]
    for line in recorded.lines:
        lines += teller.write_line(line)
    return "\n".join(lines) + "\n"


class _ScenarioWriter:
    def __init__(self, player: RecordingPlayer) -> None:
        self._player = player
        self._client_names = ClientNames()
        self._now_ms = player.recorded.header["mono_ms"]
        self._unloaded = False

    def write_line(self, line: RecordingLine) -> Iterator[str]:
        """Yield the lines of the scenario for a line of the recording."""
        if line.kind == "beat":
            for at_ms in line.fields["at"]:
                yield from self._write_advance(at_ms)
                yield from self._write_request(line)
        else:
            if line.at_ms is not None:
                yield from self._write_advance(line.at_ms)
            if line.kind == "request":
                yield from self._write_request(line)
            elif line.kind == "unload":
                yield "> reload"
            elif line.kind == "load" and not self._unloaded and line.number > 1:
                yield "> crash"
        self._unloaded = line.kind == "unload"
        self._client_names.on_played(self._player.play_line(line))

    def _write_advance(self, at_ms: int) -> Iterator[str]:
        if at_ms > self._now_ms:
            yield f"> advance {at_ms - self._now_ms}ms"
            self._now_ms = at_ms

    def _write_request(self, line: RecordingLine) -> Iterator[str]:
        request = line.decode_field("body") if "body" in line.fields else None
        context = line.context if "context" in line.fields else None
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            raise BadRecording("a scenario supports only classic groups; this is a consumer group")
        write = _REQUEST_WRITERS.get(type(request))
        if write is None or context is None:
            yield f"# input {line.number}, {line.fields.get(line.kind)}, cannot be expressed in a scenario"
            return
        name = self._client_names.name_sender(request, context)
        try:
            written = [*write(self, name, request, context)]
        except (AttributeError, TypeError):
            # The line has fields that a request of this type cannot have.
            raise BadRecording(f"input {line.number} is not a client request") from None
        except Malformed:
            yield f"# input {line.number}: the data of {name} is not in the consumer protocol"
            return
        if (
            isinstance(request, JoinGroupRequest)
            and not request.member_id
            and name in self._client_names.member_ids
        ):
            yield f"> forget {name}"
        yield "> " + " ".join(map(shlex.quote, written))

    # Requests

    def write_join(self, name: str, request: JoinGroupRequest, context: Context) -> Iterator[str]:
        yield from ("join", *self._write_sender(name, request, context))
        yield f"session={request.session_timeout_ms}ms"
        yield f"rebalance={request.rebalance_timeout_ms}ms"
        yield f"protocols={','.join(one.name for one in request.protocols)}"
        if request.protocol_type != PROTOCOL_TYPE:
            yield f"type={request.protocol_type}"
        elif request.protocols:
            subscription = decode_subscription(request.protocols[0].metadata)
            yield f"topics={','.join(subscription.topics)}"
            if subscription.owned_partitions:
                yield f"owned={_format_partitions(subscription.owned_partitions)}"
        if request.reason is not None:
            yield f"reason={request.reason}"

    def write_sync(self, name: str, request: SyncGroupRequest, context: Context) -> Iterator[str]:
        yield from (
            "sync",
            *self._write_sender(name, request, context),
            f"generation={request.generation_id}",
        )
        if request.protocol_name is not None:
            yield f"protocol={request.protocol_name}"
        for one in request.assignments:
            assigned = decode_assignment(one.assignment).assigned_partitions if one.assignment else []
            yield f"{self._client_names.find_name(one.member_id) or one.member_id}={_format_partitions(assigned)}"

    def write_heartbeat(self, name: str, request: HeartbeatRequest, context: Context) -> Iterator[str]:
        yield from (
            "heartbeat",
            *self._write_sender(name, request, context),
            f"generation={request.generation_id}",
        )

    def write_leave(self, name: str, request: LeaveGroupRequest, context: Context) -> Iterator[str]:
        group = f"group={request.group_id}"
        if not request.members:
            yield from ("leave", *self._write_sender(name, request, context))
            return
        yield from ("leave", _ADMIN, group, f"v={context.api_version}")
        for one in request.members:
            by_instance = not one.member_id and one.group_instance_id
            yield (
                f"instance:{one.group_instance_id}"
                if by_instance
                else (self._client_names.find_name(one.member_id) or one.member_id)
            )
        if request.members[0].reason is not None:
            yield f"reason={request.members[0].reason}"

    def write_commit(self, name: str, request: OffsetCommitRequest, context: Context) -> Iterator[str]:
        generation = f"generation={request.generation_id_or_member_epoch}"
        yield from ("commit", *self._write_sender(name, request, context), generation)
        for topic in request.topics:
            for one in topic.partitions:
                yield f"{topic.name}:{one.partition_index}={one.committed_offset}"

    def write_fetch(self, name: str, request: FetchOffsets, context: Context) -> Iterator[str]:
        yield from ("fetch", name, f"group={request.group.group_id}", f"v={context.api_version}")
        for topic in request.group.topics or ():
            yield from (f"{topic.name}:{index}" for index in topic.partition_indexes)
        if request.require_stable:
            yield "stable=yes"

    def write_offset_delete(self, name: str, request: OffsetDeleteRequest, context: Context) -> Iterator[str]:
        yield from ("offset-delete", name, f"group={request.group_id}")
        for topic in request.topics:
            yield from (f"{topic.name}:{one.partition_index}" for one in topic.partitions)

    def write_describe(self, name: str, request: DescribeGroupsRequest, context: Context) -> Iterator[str]:
        yield from ("describe", name, f"v={context.api_version}", *request.groups)

    def write_delete(self, name: str, request: DeleteGroupsRequest, context: Context) -> Iterator[str]:
        yield from ("delete", name, f"v={context.api_version}", *request.groups_names)

    def _write_sender(self, name: str, request: Any, context: Context) -> Iterator[str]:
        yield from (name, f"group={request.group_id}", f"v={context.api_version}")
        if getattr(request, "group_instance_id", None) is not None:
            yield f"instance={request.group_instance_id}"
        if request.member_id != self._client_names.member_ids.get(name, "") and not (
            isinstance(request, JoinGroupRequest) and not request.member_id
        ):
            yield f"id={request.member_id}"


_REQUEST_WRITERS: Final[dict[type[object], Callable[[_ScenarioWriter, str, Any, Context], Iterator[str]]]] = {
    JoinGroupRequest: _ScenarioWriter.write_join,
    SyncGroupRequest: _ScenarioWriter.write_sync,
    HeartbeatRequest: _ScenarioWriter.write_heartbeat,
    LeaveGroupRequest: _ScenarioWriter.write_leave,
    OffsetCommitRequest: _ScenarioWriter.write_commit,
    FetchOffsets: _ScenarioWriter.write_fetch,
    OffsetDeleteRequest: _ScenarioWriter.write_offset_delete,
    DescribeGroupsRequest: _ScenarioWriter.write_describe,
    DeleteGroupsRequest: _ScenarioWriter.write_delete,
}


def _format_partitions(partitions: Iterable[TopicPartitions]) -> str:
    return ",".join(f"{one.topic}:{number}" for one in partitions for number in one.partitions)
