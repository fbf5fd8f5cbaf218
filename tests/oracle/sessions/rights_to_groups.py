"""What clients may do to groups: be members, commit and fetch offsets, see them, delete them."""

from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.oracle.guarded import NAMES, Guarded, Stage, cases, of_each, play_guarded
from tests.oracle.member import commit_request, protocols
from tests.oracle.offsets import delete_request, fetch_request, group_request
from tests.oracle.peers import SECURED
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

GROUP, TXN = 0, 1
"""Kinds of coordinators."""


def _join(stage: Stage) -> Any:
    return JoinGroupRequest(
        group_id=stage.name,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=protocols("range"),
    )


def _sync(stage: Stage) -> Any:
    return SyncGroupRequest(
        group_id=stage.name,
        generation_id=1,
        member_id="nobody",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )


def _sync_without_protocol(stage: Stage) -> Any:
    return SyncGroupRequest(group_id=stage.name, generation_id=1, member_id="nobody", assignments=[])


def _beat(stage: Stage) -> Any:
    return HeartbeatRequest(group_id=stage.name, generation_id=1, member_id="nobody")


def _leave(stage: Stage) -> Any:
    members = [MemberIdentity(member_id="nobody"), MemberIdentity(member_id="", group_instance_id="i")]
    if stage.version < 3:
        return LeaveGroupRequest(group_id=stage.name, member_id="nobody")
    return LeaveGroupRequest(group_id=stage.name, members=members)


def _commit(stage: Stage) -> Any:
    return OffsetCommitRequest(
        group_id=stage.name,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=7, committed_metadata=""
                    )
                    for index in (0,)
                ],
            )
            for topic in stage.topics
        ],
    )


def _committed(stage: Stage) -> None:
    for group in stage.names:
        commit = commit_request(group, {(topic.name, 0): 5 for topic in stage.topics})
        stage.play.ask(commit, 8, "admin")


def _fetch(stage: Stage) -> Any:
    return fetch_request(stage.name, stage.version, {topic: [0] for topic in stage.topics})


def _fetch_unknown(stage: Stage) -> Any:
    nothing = Topic(stage.play.name("nothing"), b"a topic that no-")
    return fetch_request(stage.name, stage.version, {topic: [0] for topic in (stage.topics[1], nothing)})


def _fetch_all(stage: Stage) -> Any:
    return fetch_request(stage.name, stage.version)


def _fetch_groups(stage: Stage) -> Any:
    groups = [
        group_request(
            group, {topic: [0] for topic in stage.topics} if group != stage.names[2] else None, stage.version
        )
        for group in stage.names
    ]
    return OffsetFetchRequest(groups=groups)


def _delete_offsets(stage: Stage) -> Any:
    return delete_request(stage.name, {topic: [0] for topic in stage.topics})


def _delete_offsets_of_nothing(stage: Stage) -> Any:
    nothing = stage.play.name("nothing")
    first, one, last = stage.names
    return delete_request(stage.name, {first: [0], one: [0, 1], nothing: [0], last: [0, 1]})


def _find(kind: int) -> Any:
    def asked(stage: Stage) -> Any:
        if stage.version < 4:
            return FindCoordinatorRequest(key=stage.name, key_type=kind)
        return FindCoordinatorRequest(coordinator_keys=stage.names, key_type=kind)

    return asked


def _describe(stage: Stage) -> Any:
    return DescribeGroupsRequest(groups=stage.names, include_authorized_operations=stage.version > 3)


def _list(stage: Stage) -> Any:
    return ListGroupsRequest()


def _delete(stage: Stage) -> Any:
    return DeleteGroupsRequest(groups_names=stage.names)


def _consumer_heartbeat(stage: Stage) -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=stage.name,
        member_id="nobody",
        member_epoch=3,
        subscribed_topic_names=stage.names,
        topic_partitions=[],
    )


def _consumer_describe(stage: Stage) -> Any:
    return ConsumerGroupDescribeRequest(group_ids=stage.names, include_authorized_operations=True)


def groups_of(answer: Any) -> list[str]:
    """The groups of an answer, in its order."""
    return [each.group_id for each in getattr(answer, "groups", None) or getattr(answer, "results", [])]


def keys_of(answer: Any) -> list[str]:
    """The keys of several coordinators."""
    return [each.key for each in answer.coordinators]


ONE_GROUP = {"the group": (f"READ GROUP {NAMES[1]}",)}
WITH_TOPICS = {**ONE_GROUP, **of_each("READ")}
_FETCHED = {"the group": (f"DESCRIBE GROUP {NAMES[1]}",), **of_each("DESCRIBE")}
_SEVERAL = {**of_each("DESCRIBE", "GROUP"), "and topics": ("READ TOPIC *",)}
TABLE = {
    "JoinGroup": Guarded((0, 5, 9), _join, ONE_GROUP, has_topics=False),
    "SyncGroup": Guarded((0, 3, 5), _sync, ONE_GROUP, has_topics=False),
    "SyncGroup-without-protocol": Guarded((4, 5), _sync_without_protocol, ONE_GROUP, has_topics=False),
    "Heartbeat": Guarded((0, 3, 4), _beat, ONE_GROUP, has_topics=False),
    "LeaveGroup": Guarded((0, 3, 5), _leave, ONE_GROUP, has_topics=False),
    "OffsetCommit": Guarded((2, 8, 10), _commit, WITH_TOPICS),
    "OffsetFetch": Guarded((1, 5, 7, 8, 10), _fetch, _FETCHED, prepare=_committed),
    "OffsetFetch-of-what-is-not-there": Guarded((9, 10), _fetch_unknown, _FETCHED, prepare=_committed),
    "OffsetFetch-of-all": Guarded((2, 7, 8, 10), _fetch_all, _FETCHED, prepare=_committed),
    "OffsetFetch-of-groups": Guarded((8, 9, 10), _fetch_groups, _SEVERAL, groups_of, prepare=_committed),
    "OffsetDelete": Guarded(
        (0,),
        _delete_offsets,
        {"the group": (f"DELETE GROUP {NAMES[1]}",), **of_each("READ")},
        prepare=_committed,
    ),
    "OffsetDelete-of-what-is-not-there": Guarded(
        (0,),
        _delete_offsets_of_nothing,
        {"the group": (f"DELETE GROUP {NAMES[1]}", "READ TOPIC nothing"), **of_each("READ")},
        prepare=_committed,
    ),
    "FindCoordinator": Guarded((0, 3, 4, 6), _find(GROUP), of_each("DESCRIBE", "GROUP"), has_topics=False),
    "FindCoordinator-of-transactions": Guarded(
        (1, 4, 6), _find(TXN), of_each("DESCRIBE", "TXN"), has_topics=False
    ),
    "DescribeGroups": Guarded(
        (0, 3, 4, 6), _describe, of_each("DESCRIBE", "GROUP"), groups_of, prepare=_committed
    ),
    "ListGroups": Guarded(
        (0, 3, 5),
        _list,
        {"one": (f"DESCRIBE GROUP {NAMES[1]}",), "the cluster": ("DESCRIBE CLUSTER",)},
        own=True,
        prepare=_committed,
    ),
    "DeleteGroups": Guarded((0, 1, 3), _delete, of_each("DELETE", "GROUP"), groups_of, prepare=_committed),
    "ConsumerGroupHeartbeat": Guarded((0, 1), _consumer_heartbeat, {**ONE_GROUP, **of_each("DESCRIBE")}),
    "ConsumerGroupDescribe": Guarded(
        (0, 1), _consumer_describe, of_each("DESCRIBE", "GROUP"), groups_of, prepare=_committed
    ),
}


@session(setup=SECURED, case=cases(TABLE))
def rights_to_groups(play: Play, case: str) -> None:
    play_guarded(play, TABLE, case)
