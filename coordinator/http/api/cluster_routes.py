"""API routes for brokers, owners of partitions, moves of partitions, and failovers of coordinators."""

from textwrap import wrap
from typing import Final

from msgspec import Struct

from coordinator.control.admin.cluster_operations import (
    BrokerStatus,
    ClusterStatus,
    EtcdStatus,
    PartitionMove,
    PartitionStatus,
    default_topic,
)
from coordinator.control.admin.coordinator_failover import FailoverResult, GroupFailoverResult
from coordinator.control.control_plane import ControlPlane
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import (
    format_count,
    format_duration,
    format_list,
    format_seconds,
    printable,
)
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_messages import bad_request
from coordinator.http.api.api_route import ApiCall, ApiRoute

_COLUMNS: Final = 110


@wire_name("MoveBody")
class MoveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The partition to move: the offsets partition of a `group`, or the `partition` number of a `topic` (default
    `__consumer_offsets`). `to` is the id of the new broker. Clients get COORDINATOR_LOAD_IN_PROGRESS for at least
    `hold_loading`."""

    to: int
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    hold_loading: int | str = 0


async def show_cluster(control: ControlPlane, _: ApiCall) -> ClusterStatus:
    """Return all brokers, and all partitions with their owners."""
    return await control.cluster.describe_cluster()


async def move_partition(control: ControlPlane, call: ApiCall) -> PartitionMove:
    """Move a partition, and wait until its new owner has claimed it. The owner may load it after the response."""
    body: MoveBody = call.body
    hold_ms = parse_duration_ms(body.hold_loading, "hold_loading")
    if body.group is not None and body.topic is None and body.partition is None:
        return await control.cluster.await_arrival(
            control.cluster.move_group(body.group, body.to, hold_ms, call.actor)
        )
    if body.group is None and body.partition is not None:
        topic = default_topic(body.topic)
        moved = control.cluster.move_partition(topic, body.partition, body.to, hold_ms, call.actor)
        return await control.cluster.await_arrival(moved)
    raise bad_request("", "partition is missing", "Set either group, or partition and optionally topic.")


async def stop_broker(control: ControlPlane, call: ApiCall) -> BrokerStatus:
    return control.cluster.stop_broker(_parse_node_id(call), call.actor)


async def start_broker(control: ControlPlane, call: ApiCall) -> BrokerStatus:
    return control.cluster.start_broker(_parse_node_id(call), call.actor)


def _parse_node_id(call: ApiCall) -> int:
    text = call.path["node_id"]
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise bad_request("", "invalid node id", f"{printable(text)!r} is not a broker id: use a number.")
    return int(text)


def _format_broker(broker: BrokerStatus) -> str:
    where = ", ".join(f"{name}://{address}" for name, address in broker.listeners.items())
    state = "live" if broker.live else "stopped"
    text = f"broker {broker.node_id}  {where}  {state}  owns {broker.owned_partitions} partitions"
    if broker.rack is not None:
        text += f"  rack {printable(broker.rack)}"
    if broker.broker_epoch is not None:
        text += f"  epoch {broker.broker_epoch}"
    left_s = broker.session_left_seconds
    return text if left_s is None else f"{text}  session ends in {format_seconds(left_s * 1000)}"


def _format_status(status: ClusterStatus) -> str:
    lines = [_format_broker(broker) for broker in status.brokers]
    if status.etcd is not None:
        lines += _format_etcd(status.etcd)
    for topic in dict.fromkeys(part.topic for part in status.partitions):
        lines.append(f"{'coordinators in ' if topic in COORDINATOR_TOPICS else ''}{printable(topic)}")
        lines += _format_owners([part for part in status.partitions if part.topic == topic])
    return "\n".join(lines)


def _format_owners(parts: list[PartitionStatus]) -> list[str]:
    """Return the partitions of a topic by owner, in lines that fit on a screen."""
    owned: dict[int | None, list[str]] = {}
    for part in parts:
        held = f"({part.engine_bytes}B)" if part.engine_bytes else ""
        owned.setdefault(part.owner, []).append(f"{part.partition}@{part.leader_epoch}{held}")
    lines = []
    for owner, names in sorted(owned.items(), key=lambda each: (each[0] is None, each[0] or 0)):
        who = "  nobody  " if owner is None else f"  broker {owner}  "
        lines += wrap(" ".join(names), _COLUMNS, initial_indent=who, subsequent_indent=" " * len(who))
    return lines


def _format_etcd(etcd: EtcdStatus) -> list[str]:
    lines = []
    for node in etcd.nodes:
        if node.problem is not None:
            lines.append(f"etcd {node.endpoint}  does not answer: {printable(node.problem)}")
            continue
        part = "leader" if node.leader else "follower"
        size = f"{node.db_bytes:,} bytes, {100 * node.db_bytes // etcd.quota_bytes} % of its quota"
        lines.append(f"etcd {node.endpoint}  {printable(node.version)}  {part}  {size}")
    if etcd.single:
        lines.append("etcd has one node. Without it the cluster stops; that is acceptable for tests.")
    if etcd.full:
        lines.append(
            "etcd is full (NOSPACE): it needs compaction, defragmentation and `etcdctl alarm disarm`."
        )
    if etcd.problem is not None:
        lines.append(f"etcd does not report the owners: {printable(etcd.problem)}")
    return lines


def _format_moved(moved: PartitionMove) -> str:
    name = f"{printable(moved.topic)}-{moved.partition}"
    if moved.before == moved.owner:
        return f"Broker {moved.owner} already owns {name}."
    whence = "nobody" if moved.before is None else f"broker {moved.before}"
    return f"{name} moved from {whence} to broker {moved.owner}."


_NOT_POSSIBLE: Final = (ProblemKind.NOT_POSSIBLE,)
CLUSTER_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/cluster",
        summary="The brokers of this process or cluster, and the owner of each partition",
        command="cluster status",
        handle=show_cluster,
        answer=ClusterStatus,
        text=_format_status,
        is_process_wide=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/move",
        summary="Move a partition to another broker",
        command="cluster move",
        handle=move_partition,
        body=MoveBody,
        answer=PartitionMove,
        text=_format_moved,
        changes=True,
        problems=(*_NOT_POSSIBLE, ProblemKind.NO_SUCH_TOPIC),
        is_process_wide=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/brokers/{node_id}/stop",
        summary="Stop a broker of this process; other brokers take over its partitions",
        command="cluster stop",
        handle=stop_broker,
        answer=BrokerStatus,
        text=_format_broker,
        changes=True,
        problems=_NOT_POSSIBLE,
        is_process_wide=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/brokers/{node_id}/start",
        summary="Start a stopped broker",
        command="cluster start",
        handle=start_broker,
        answer=BrokerStatus,
        text=_format_broker,
        changes=True,
        problems=_NOT_POSSIBLE,
        is_process_wide=True,
    ),
)

MAX_SHOWN_GROUPS: Final = 10
"""The maximum number of groups in the text."""


@wire_name("FailoverBody")
class FailoverBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failover. Clients get NOT_COORDINATOR for `not_coordinator`, then COORDINATOR_LOAD_IN_PROGRESS for
    `loading`. `to` is the node id of the new coordinator; null keeps the current one."""

    not_coordinator: int | str = 0
    loading: int | str = 0
    to: int | None = None


@wire_name("GroupFailoverBody")
class GroupFailoverBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failover of one group. Clients get NOT_COORDINATOR for `not_coordinator`, then
    COORDINATOR_LOAD_IN_PROGRESS for `loading`. The response waits for the members, for at most `settle`. `to` is
    the node id of the new coordinator; null keeps the current one."""

    not_coordinator: int | str = 0
    loading: int | str = 0
    to: int | None = None
    settle: int | str = "5s"


async def fail_over_group(control: ControlPlane, call: ApiCall) -> FailoverResult:
    """Move the offsets partition of a group."""
    body = call.body
    return await control.failover.failover_group(
        call.path["group"],
        parse_duration_ms(body.not_coordinator, "not_coordinator"),
        parse_duration_ms(body.loading, "loading"),
        parse_duration_ms(body.settle, "settle"),
        call.actor,
        body.to,
    )


async def fail_over_partition(control: ControlPlane, call: ApiCall) -> FailoverResult:
    """Move an offsets partition."""
    text = call.path["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        detail = f"{printable(text)!r} is not an offsets partition: use its number."
        raise Problem(ProblemKind.BAD_REQUEST, "no number", detail)
    body = call.body
    return await control.failover.failover_partition(
        int(text),
        parse_duration_ms(body.not_coordinator, "not_coordinator"),
        parse_duration_ms(body.loading, "loading"),
        call.actor,
        body.to,
    )


def format_failover(answer: FailoverResult) -> str:
    """Return the moved partition and its effect on the requested group as text."""
    shown = [printable(group) for group in answer.groups[:MAX_SHOWN_GROUPS]]
    named = format_list(shown, answer.group_count)
    with_it = (
        f", with it {format_count(answer.group_count, 'group')} ({named})" if named else ", without a group"
    )
    text = f"{answer.partition} moves{with_it}. Served again after {format_duration(answer.served_after_ms)}."
    return text if answer.group is None else f"{text} {_format_group(answer.group)}"


def _format_group(group: GroupFailoverResult) -> str:
    generation = f"generation {group.generation_id} {'kept' if group.generation_kept else 'is new'}"
    return (
        f"{printable(group.group_id)}: {group.state}, {generation}, {group.members_back} of {group.members} "
        f"members back, {format_count(group.rebalances, 'rebalance')}"
    )


_FAILOVER_PROBLEMS: Final = (ProblemKind.LOADING, ProblemKind.NOT_POSSIBLE)
FAILOVER_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/groups/{group}/failover",
        summary="Move the coordinator of a group, and of all groups of its offsets partition",
        command="failover",
        handle=fail_over_group,
        body=GroupFailoverBody,
        answer=FailoverResult,
        text=format_failover,
        changes=True,
        lasts=True,
        problems=(*_FAILOVER_PROBLEMS, ProblemKind.NO_SUCH_GROUP),
    ),
    ApiRoute(
        method="POST",
        path="/offsets-partitions/{number}/failover",
        summary="Move the coordinator of all groups of an offsets partition",
        handle=fail_over_partition,
        body=FailoverBody,
        answer=FailoverResult,
        text=format_failover,
        changes=True,
        lasts=True,
        problems=_FAILOVER_PROBLEMS,
    ),
)
