"""A member of a classic group with the state that a client keeps between requests."""

from dataclasses import dataclass, field
from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.oracle.play import Play, Topic

NEWEST: Final = {"join": 9, "sync": 5, "heartbeat": 4, "leave": 5, "commit": 9}
"""The versions that a member speaks unless told otherwise; Kafka 3.9 answers them too."""


def protocols(*texts: str) -> list[JoinGroupRequestProtocol]:
    """`range` or `range:metadata`, in the order of preference."""
    parts = [text.partition(":") for text in texts]
    return [JoinGroupRequestProtocol(name=name, metadata=(data or "-").encode()) for name, _, data in parts]


def commit_request(
    group: str, offsets: dict[tuple[Topic | str, int], int], version: int = 9, **fields: Any
) -> OffsetCommitRequest:
    """A commit of `{(topic, partition): offset}`; from v10 on topics go by their id."""
    topics: dict[Any, OffsetCommitRequestTopic] = {}
    metadata = fields.pop("metadata", "note")
    for (topic, partition), offset in offsets.items():
        name = topic.name if isinstance(topic, Topic) else topic
        entry = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        if version >= 10 and isinstance(topic, Topic):
            entry.topic_id = topic.id
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(group_id=group, topics=list(topics.values()), **fields)


@dataclass
class Member:
    """A member: its configuration and the state from the coordinator's responses. Its connection has its name."""

    play: Play
    name: str
    group: str = ""
    instance: str | None = None
    protocols: tuple[str, ...] = ("range",)
    protocol_type: str = "consumer"
    session_ms: int = 60_000
    rebalance_ms: int = 60_000
    reason: str | None = None
    versions: dict[str, int] = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    protocol_name: str | None = None

    def __post_init__(self) -> None:
        self.group = self.group or self.play.group

    @property
    def leads(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""
        return bool(self.member_id) and self.leader == self.member_id

    def version(self, what: str) -> int:
        """The version that it speaks of an API."""
        return self.versions.get(what, NEWEST[what])

    def caller(self, version: int, first_static: int) -> dict[str, Any]:
        """What names the caller in its requests; versions that know static members also name its instance."""
        identity: dict[str, Any] = {"group_id": self.group, "member_id": self.member_id}
        if version >= first_static:
            identity["group_instance_id"] = self.instance
        return identity

    # JoinGroup

    def join(self, note: str = "", **fields: Any) -> Any:
        """Send JoinGroup and return its response; `fields` override request fields."""
        request, version = self.join_request(fields)
        return self._learn(self.play.ask(request, version, self.name, note))

    def begin_join(self, note: str = "", **fields: Any) -> None:
        """Sends a JoinGroup that the coordinator parks; `joined` takes its answer."""
        request, version = self.join_request(fields)
        self.play.park(request, version, self.name, note)

    def joined(self) -> Any:
        """Waits for the answer to the JoinGroup that was parked."""
        return self._learn(self.play.answer(self.name))

    def join_request(self, fields: dict[str, Any]) -> tuple[JoinGroupRequest, int]:
        """The request and its version."""
        version = fields.pop("version", self.version("join"))
        offered = fields.pop("protocols", self.protocols)
        request = JoinGroupRequest(
            **{
                "session_timeout_ms": self.session_ms,
                "rebalance_timeout_ms": self.rebalance_ms if version >= 1 else -1,
                "protocol_type": self.protocol_type,
                "protocols": protocols(*offered),
                "reason": self.reason if version >= 8 else None,
                **self.caller(version, 5),
                **fields,
            }
        )
        return request, version

    def enter(self, **fields: Any) -> Any:
        """JoinGroup, and a second one if the first only gave it its member id."""
        answer = self.join(**fields)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join(**fields)
        return answer

    def _learn(self, answer: Any) -> Any:
        if answer is not None:
            self.member_id = answer.member_id or self.member_id
            if answer.error_code == ErrorCode.NONE:
                self.generation = answer.generation_id
                self.leader = answer.leader
                self.protocol_name = answer.protocol_name
        return answer

    # The other requests

    def sync(self, *others: "Member", note: str = "", **fields: Any) -> Any:
        """Send SyncGroup and return its response. A leader also sends the assignments of `others`."""
        request, version = self.sync_request(others, fields)
        return self.play.ask(request, version, self.name, note)

    def begin_sync(self, note: str = "", **fields: Any) -> None:
        """Sends a SyncGroup that the coordinator parks; `synced` takes its answer."""
        request, version = self.sync_request((), fields)
        self.play.park(request, version, self.name, note)

    def synced(self) -> Any:
        """Waits for the answer to the SyncGroup that was parked."""
        return self.play.answer(self.name)

    def sync_request(
        self, others: tuple["Member", ...], fields: dict[str, Any]
    ) -> tuple[SyncGroupRequest, int]:
        """The request and its version."""
        version = fields.pop("version", self.version("sync"))
        parts = [self, *others] if self.leads else []
        assignments = [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=f"part of {each.name}".encode())
            for each in parts
        ]
        names = {"protocol_type": self.protocol_type, "protocol_name": self.protocol_name or "range"}
        request = SyncGroupRequest(
            **{
                "generation_id": self.generation,
                "assignments": assignments,
                **(names if version >= 5 else {}),
                **self.caller(version, 3),
                **fields,
            }
        )
        return request, version

    def heartbeat(self, note: str = "", by: str = "", **fields: Any) -> Any:
        """Sends a Heartbeat and waits for its answer."""
        version = fields.pop("version", self.version("heartbeat"))
        values = {"generation_id": self.generation, **self.caller(version, 3), **fields}
        return self.play.ask(HeartbeatRequest(**values), version, by or self.name, note)

    def leave(self, note: str = "", by: str = "", **fields: Any) -> Any:
        """Sends a LeaveGroup for itself and waits for its answer."""
        version = fields.pop("version", self.version("leave"))
        identity = {"member_id": self.member_id, "group_instance_id": self.instance, **fields}
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group, member_id=identity["member_id"])
        else:
            request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(**identity)])
        return self.play.ask(request, version, by or self.name, note)

    def commit(
        self, offsets: dict[tuple[Topic | str, int], int], note: str = "", by: str = "", **fields: Any
    ) -> Any:
        """Sends an OffsetCommit and waits for its answer."""
        version = fields.pop("version", self.version("commit"))
        values: dict[str, Any] = self.caller(version, 7) if version >= 1 else {}
        values |= {"generation_id_or_member_epoch": self.generation} if version >= 1 else {}
        values |= fields
        group = values.pop("group_id", self.group)
        return self.play.ask(
            commit_request(group, offsets, version, **values), version, by or self.name, note
        )


def stable(*members: Member) -> None:
    """Form a Stable group of these members, the first of which leads; not recorded."""
    play, (first, *others) = members[0].play, members
    assert not any(each.member_id for each in members)
    with play.quietly():
        first.enter()
        if others:
            first.sync()
            gather(first, *others)
        share_out(first, *others)


def gather(first: Member, *others: Member) -> None:
    """All join. `first` leads a Stable group; of the others all belong to it, or none."""
    newcomers = [each for each in others if not each.member_id]
    for each in newcomers:
        if each.version("join") >= 4 and each.instance is None:
            each.join()
    *early, last = (*others, first) if newcomers else (first, *others)
    for each in early:
        each.begin_join()
    last.join()
    for each in early:
        each.joined()


def share_out(*members: Member) -> None:
    """The members sync, the leader last; all have their parts then."""
    leader = next(each for each in members if each.leads)
    followers = [each for each in members if each is not leader]
    for each in followers:
        each.begin_sync()
    leader.sync(*followers)
    for each in followers:
        each.synced()
