"""A recording as a story for tests/scenarios: its commands, without what comes of them, which the runner writes.

A story has no connections, hosts or user data, and its timers fire when they are due. What cannot be said in it is
said in a comment.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from coordinator.control.replay.cast import Cast
from coordinator.control.replay.player import Player
from coordinator.control.replay.recorded import BadRecording, Line, Recorded
from coordinator.group.requests import FetchOffsets
from coordinator.machine.outcome import Context
from coordinator.net.peer import printable
from protocol.consumer_protocol import PROTOCOL_TYPE, TopicPartitions, decode_assignment, decode_subscription
from protocol.malformed import Malformed
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest

_CONFIG: Final = {
    "delay": ("group.initial.rebalance.delay.ms", "ms"),
    "max-size": ("group.max.size", ""),
    "retention": ("offsets.retention.minutes", "m"),
    "min-session": ("group.min.session.timeout.ms", "ms"),
    "metadata-max": ("offset.metadata.max.bytes", ""),
}
"""The properties that a story may set, and their units there."""
_ADMIN: Final = "admin"


def scenario_text(recorded: Recorded) -> str:
    """The story. Raises BadRecording where it is none that a story can tell."""
    if recorded.header["start"] != "empty":
        raise BadRecording("a scenario begins with a new group, and this recording with one that was there")
    teller = _Teller(Player(recorded))
    config = recorded.header["config"]
    settings = (f"{word}={config[name]}{unit}" for word, (name, unit) in _CONFIG.items())
    name = printable(recorded.group_id)
    lines = [f"# A recording of group {name}: {recorded.inputs} inputs", f"> config {' '.join(settings)}"]
    for line in recorded.lines:
        lines += teller.told(line)
    return "\n".join(lines) + "\n"


class _Teller:
    def __init__(self, player: Player) -> None:
        self._player = player
        self._cast = Cast()
        self._now_ms = player.recorded.header["mono_ms"]
        self._unloaded = False

    def told(self, line: Line) -> Iterator[str]:
        """The lines of the story for a line of the recording."""
        if line.kind == "beat":
            for at_ms in line.said["at"]:
                yield from self._advance(at_ms)
                yield from self._request(line)
        else:
            if line.at is not None:
                yield from self._advance(line.at)
            if line.kind == "request":
                yield from self._request(line)
            elif line.kind == "unload":
                yield "> reload"
            elif line.kind == "load" and not self._unloaded and line.number > 1:
                yield "> crash"
        self._unloaded = line.kind == "unload"
        self._cast.hear(self._player.play(line))

    def _advance(self, at_ms: int) -> Iterator[str]:
        if at_ms > self._now_ms:
            yield f"> advance {at_ms - self._now_ms}ms"
            self._now_ms = at_ms

    def _request(self, line: Line) -> Iterator[str]:
        request = line.value("body") if "body" in line.said else None
        context = line.context if "context" in line.said else None
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            raise BadRecording("a scenario has groups of the classic protocol, and this is a consumer group")
        words = _WORDS.get(type(request))
        if words is None or context is None:
            yield f"# input {line.number}, {line.said.get(line.kind)}, is none of a story"
            return
        name = self._cast.sender(request, context)
        try:
            said = [*words(self, name, request, context)]
        except (AttributeError, TypeError):
            # Its fields are not what a request of that name has.
            raise BadRecording(f"input {line.number} is no request that a client sends") from None
        except Malformed:
            yield f"# input {line.number}: what {name} sent is not the consumer protocol's"
            return
        if isinstance(request, JoinGroupRequest) and not request.member_id and name in self._cast.member_ids:
            yield f"> forget {name}"
        yield "> " + " ".join(map(shlex.quote, said))

    # The words of each request

    def join(self, name: str, request: JoinGroupRequest, context: Context) -> Iterator[str]:
        yield from ("join", *self._who(name, request, context))
        yield f"session={request.session_timeout_ms}ms"
        yield f"rebalance={request.rebalance_timeout_ms}ms"
        yield f"protocols={','.join(one.name for one in request.protocols)}"
        if request.protocol_type != PROTOCOL_TYPE:
            yield f"type={request.protocol_type}"
        elif request.protocols:
            subscription = decode_subscription(request.protocols[0].metadata)
            yield f"topics={','.join(subscription.topics)}"
            if subscription.owned_partitions:
                yield f"owned={_places(subscription.owned_partitions)}"
        if request.reason is not None:
            yield f"reason={request.reason}"

    def sync(self, name: str, request: SyncGroupRequest, context: Context) -> Iterator[str]:
        yield from ("sync", *self._who(name, request, context), f"generation={request.generation_id}")
        if request.protocol_name is not None:
            yield f"protocol={request.protocol_name}"
        for one in request.assignments:
            assigned = decode_assignment(one.assignment).assigned_partitions if one.assignment else []
            yield f"{self._cast.name_of(one.member_id) or one.member_id}={_places(assigned)}"

    def heartbeat(self, name: str, request: HeartbeatRequest, context: Context) -> Iterator[str]:
        yield from ("heartbeat", *self._who(name, request, context), f"generation={request.generation_id}")

    def leave(self, name: str, request: LeaveGroupRequest, context: Context) -> Iterator[str]:
        group = f"group={request.group_id}"
        if not request.members:
            yield from ("leave", *self._who(name, request, context))
            return
        yield from ("leave", _ADMIN, group, f"v={context.api_version}")
        for one in request.members:
            by_instance = not one.member_id and one.group_instance_id
            yield (
                f"instance:{one.group_instance_id}"
                if by_instance
                else (self._cast.name_of(one.member_id) or one.member_id)
            )
        if request.members[0].reason is not None:
            yield f"reason={request.members[0].reason}"

    def commit(self, name: str, request: OffsetCommitRequest, context: Context) -> Iterator[str]:
        generation = f"generation={request.generation_id_or_member_epoch}"
        yield from ("commit", *self._who(name, request, context), generation)
        for topic in request.topics:
            for one in topic.partitions:
                yield f"{topic.name}:{one.partition_index}={one.committed_offset}"

    def fetch(self, name: str, request: FetchOffsets, context: Context) -> Iterator[str]:
        yield from ("fetch", name, f"group={request.group.group_id}", f"v={context.api_version}")
        for topic in request.group.topics or ():
            yield from (f"{topic.name}:{index}" for index in topic.partition_indexes)
        if request.require_stable:
            yield "stable=yes"

    def offset_delete(self, name: str, request: OffsetDeleteRequest, context: Context) -> Iterator[str]:
        yield from ("offset-delete", name, f"group={request.group_id}")
        for topic in request.topics:
            yield from (f"{topic.name}:{one.partition_index}" for one in topic.partitions)

    def describe(self, name: str, request: DescribeGroupsRequest, context: Context) -> Iterator[str]:
        yield from ("describe", name, f"v={context.api_version}", *request.groups)

    def delete(self, name: str, request: DeleteGroupsRequest, context: Context) -> Iterator[str]:
        yield from ("delete", name, f"v={context.api_version}", *request.groups_names)

    def _who(self, name: str, request: Any, context: Context) -> Iterator[str]:
        yield from (name, f"group={request.group_id}", f"v={context.api_version}")
        if getattr(request, "group_instance_id", None) is not None:
            yield f"instance={request.group_instance_id}"
        if request.member_id != self._cast.member_ids.get(name, "") and not (
            isinstance(request, JoinGroupRequest) and not request.member_id
        ):
            yield f"id={request.member_id}"


_WORDS: Final[dict[type[object], Callable[[_Teller, str, Any, Context], Iterator[str]]]] = {
    JoinGroupRequest: _Teller.join,
    SyncGroupRequest: _Teller.sync,
    HeartbeatRequest: _Teller.heartbeat,
    LeaveGroupRequest: _Teller.leave,
    OffsetCommitRequest: _Teller.commit,
    FetchOffsets: _Teller.fetch,
    OffsetDeleteRequest: _Teller.offset_delete,
    DescribeGroupsRequest: _Teller.describe,
    DeleteGroupsRequest: _Teller.delete,
}


def _places(partitions: Iterable[TopicPartitions]) -> str:
    return ",".join(f"{one.topic}:{number}" for one in partitions for number in one.partitions)
