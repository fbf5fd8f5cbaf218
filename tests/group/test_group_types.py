"""The effect of each request on a group that is not classic, beside classic groups."""

import pytest

from coordinator.group.group_event_types import CommitRefused, GroupDeleted
from coordinator.group.group_interface import CommitValidation, Group
from coordinator.group.group_requests import (
    CommandResult,
    ExpireMember,
    ExtendSessions,
    GroupTimerKey,
    GroupTimerKind,
    ShiftDeadlines,
)
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import OffsetDeleteResponse
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator
from tests.group.stub_group import StubGroup

MINUTE_MS = 60_000
CONFIG = group_config(
    offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000, offset_metadata_max_bytes=8
)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(CONFIG)


@pytest.fixture
def group(coordinator: Coordinator) -> StubGroup:
    stub = StubGroup(GROUP)
    coordinator.shard._groups.by_id[GROUP] = stub
    return stub


def commit(coordinator: Coordinator, *texts: str) -> list[int]:
    """Commit one partition for each metadata text, and return the errors."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=text)
        for index, text in enumerate(texts)
    ]
    topics = [OffsetCommitRequestTopic(name="foo", partitions=partitions)]
    request = OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=1, member_id="m", topics=topics
    )
    (answer,) = coordinator.send(request, 9).answer(OffsetCommitResponse).topics
    return [partition.error_code for partition in answer.partitions]


def test_requests_of_the_classic_protocol_are_refused(coordinator: Coordinator, group: StubGroup) -> None:
    joined = coordinator.join("m").joined
    assert (joined.error_code, joined.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert coordinator.sync("m", 1).synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    left = coordinator.leave(MemberIdentity(member_id="m")).answer(LeaveGroupResponse)
    assert (left.error_code, left.members[0].error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    request = DescribeGroupsRequest(groups=[GROUP])
    (described,) = coordinator.send(request, 6).answer(DescribeGroupsResponse).groups
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == f"Group {GROUP} is not a classic group."
    assert not coordinator.records


def test_it_is_listed_with_its_type(coordinator: Coordinator, group: StubGroup) -> None:
    coordinator.commit(group="classic")

    def listed(*types: str) -> list[tuple[str, str, str, str]]:
        answer = coordinator.list_groups(types=types).answer(ListGroupsResponse)
        return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in answer.groups]

    assert listed("Share") == [(GROUP, "share", "Stable", "share")]
    assert listed("classic") == [("classic", "", "Empty", "classic")]
    assert len(listed()) == 2


def test_it_takes_commits_and_hears_of_them(coordinator: Coordinator, group: StubGroup) -> None:
    assert commit(coordinator, "", "") == [0, 0]
    assert group.heard_of == ["m"]
    assert len(coordinator.fetch()) == 2
    group.is_dead = True
    assert coordinator.fetch() == {}


def test_one_refused_partition_refuses_the_commit(coordinator: Coordinator, group: StubGroup) -> None:
    """One rejected partition rejects the commit, as in Kafka; a partition with too long metadata is not checked."""
    group.foreign = {("foo", 1)}
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "", "", "") == [stale, stale, stale]
    assert not coordinator.records
    assert not group.heard_of
    (refused,) = coordinator.find_events(CommitRefused)
    assert (refused.error, refused.state, refused.partitions) == (stale, "Stable", 3)
    assert commit(coordinator, "", "far too long") == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert len(coordinator.records) == 1


def test_what_it_reads_stays_and_the_rest_expires(coordinator: Coordinator, group: StubGroup) -> None:
    commit(coordinator, "")
    group.read = {"foo"}
    coordinator.advance(2 * MINUTE_MS)
    assert len(coordinator.fetch()) == 1
    (topic,) = coordinator.delete_offsets(("foo", 0)).answer(OffsetDeleteResponse).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.read.clear()
    coordinator.advance(2 * MINUTE_MS)
    assert coordinator.fetch() == {}
    assert coordinator.find_events(GroupDeleted) == []
    group.has_members = False
    coordinator.advance(2 * MINUTE_MS)
    assert coordinator.find_events(GroupDeleted) == [GroupDeleted(GROUP, 0, "retention")]


def test_it_is_deleted_with_its_own_tombstones(coordinator: Coordinator, group: StubGroup) -> None:
    commit(coordinator, "")

    def delete() -> int:
        return coordinator.delete_groups(GROUP).answer(DeleteGroupsResponse).results[0].error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    group.has_members = False
    assert delete() == ErrorCode.NONE
    assert [record.value for record in coordinator.records[1:]] == [None, None]
    assert group.is_dead
    assert coordinator.list_groups().answer(ListGroupsResponse).groups == []
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND


def test_unloading_gives_it_up(coordinator: Coordinator, group: StubGroup) -> None:
    coordinator.unload()
    assert group.is_dead


def test_its_deadlines_follow_the_commands_of_operators(coordinator: Coordinator, group: StubGroup) -> None:
    group.sessions = {"m": 10_000, "n": 20_000}
    m, n = (GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, name) for name in "mn")
    assert coordinator.shard.list_deadlines(GROUP) == {m: 10_000, n: 20_000}
    coordinator.send(ExtendSessions(GROUP, ["m", "stranger"], 15_000), 0)
    assert coordinator.shard.list_deadlines(GROUP) == {m: 15_000, n: 20_000}
    coordinator.send(ShiftDeadlines([GROUP, "other"], -5_000), 0)
    assert coordinator.timers.items() >= {(m, 10_000), (n, 15_000)}
    error = coordinator.send(ExpireMember(GROUP, "m"), 0).answer(CommandResult).error
    assert error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "kind", sorted(set(GroupTimerKind) - {GroupTimerKind.EXPIRE_OFFSETS, GroupTimerKind.DELETE_OFFSETS})
)
def test_a_late_timer_of_its_former_type_does_nothing(
    coordinator: Coordinator, group: StubGroup, kind: GroupTimerKind
) -> None:
    commit(coordinator, "")
    before = (list(coordinator.records), list(coordinator.events), dict(coordinator.timers))
    coordinator.fire(GroupTimerKey(kind, GROUP, "m"))
    assert (coordinator.records, coordinator.events, coordinator.timers) == before


@pytest.mark.parametrize("by_ms", [1, -1])
def test_a_deadline_that_does_not_follow_the_clock_is_noticed(
    coordinator: Coordinator, group: StubGroup, monkeypatch: pytest.MonkeyPatch, by_ms: int
) -> None:
    group.sessions = {"m": 10_000}
    monkeypatch.setattr(group, "shift_deadlines", lambda by_ms, builder: None)
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.send(ShiftDeadlines([GROUP], by_ms), 0)


def test_a_session_that_an_extension_shortens_is_noticed(
    coordinator: Coordinator, group: StubGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.sessions = {"m": 10_000}
    monkeypatch.setattr(group, "extend_sessions", lambda *_: group.sessions.update(m=9_999))
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.send(ExtendSessions(GROUP, ["m"], 20_000), 0)


@pytest.mark.parametrize(
    "validation",
    [
        CommitValidation(ErrorCode.NONE),
        CommitValidation(ErrorCode.ILLEGAL_GENERATION, None, lambda *_: ErrorCode.NONE),
    ],
)
def test_a_validation_has_either_an_error_or_partitions(
    coordinator: Coordinator, group: StubGroup, monkeypatch: pytest.MonkeyPatch, validation: CommitValidation
) -> None:
    monkeypatch.setattr(group, "validate_commit", lambda *_: validation)
    with pytest.raises(AssertionError):
        commit(coordinator, "")


def test_a_group_that_survives_its_end_is_noticed(
    coordinator: Coordinator, group: StubGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "unload", lambda builder: None)
    monkeypatch.setattr(group, "retire", lambda builder: None)
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.unload()
    group.has_members = False
    with pytest.raises(AssertionError, match=GROUP):
        coordinator.delete_groups(GROUP)


def test_a_group_needs_all_of_the_interface() -> None:
    class Incomplete(StubGroup):
        list_deadlines = Group.list_deadlines

    with pytest.raises(TypeError, match="list_deadlines"):
        Incomplete(GROUP)
