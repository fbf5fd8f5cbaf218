"""/v1/cluster: the brokers of this process, or of its cluster, and what each owns; what moves, stops and starts."""

from textwrap import wrap
from typing import Final

from msgspec import Struct

from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.cluster.cluster import (
    BrokerStatus,
    ClusterStatus,
    EtcdStatus,
    Moved,
    PartitionStatus,
    default_topic,
)
from coordinator.control.control import Control
from coordinator.control.duration import duration_ms
from coordinator.control.problem import ProblemKind
from coordinator.names import COORDINATED
from coordinator.net.peer import printable

_COLUMNS: Final = 110


class MoveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The partition of a `group`; or `partition` of a `topic`, by default of `__consumer_offsets`. `to` is the id
    of a broker. For `hold_loading` at least whoever asks is told COORDINATOR_LOAD_IN_PROGRESS."""

    to: int
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    hold_loading: int | str = 0


async def cluster_status(control: Control, _: Call) -> ClusterStatus:
    """All brokers, and all partitions with their owners."""
    return await control.cluster.status()


async def move(control: Control, call: Call) -> Moved:
    """Moves a partition; it is read by its new owner when this is answered, or after."""
    body: MoveBody = call.body
    hold_ms = duration_ms(body.hold_loading, "hold_loading")
    if body.group is not None and body.topic is None and body.partition is None:
        return await control.cluster.arrived(
            control.cluster.move_group(body.group, body.to, hold_ms, call.actor)
        )
    if body.group is None and body.partition is not None:
        topic = default_topic(body.topic)
        moved = control.cluster.move(topic, body.partition, body.to, hold_ms, call.actor)
        return await control.cluster.arrived(moved)
    raise bad_request("", "what is to move", "Say either group, or partition and perhaps topic.")


async def stop(control: Control, call: Call) -> BrokerStatus:
    """Stops a broker."""
    return control.cluster.stop(_node_id(call), call.actor)


async def start(control: Control, call: Call) -> BrokerStatus:
    """Starts one again."""
    return control.cluster.start(_node_id(call), call.actor)


def _node_id(call: Call) -> int:
    text = call.path["node_id"]
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise bad_request("", "no node id", f"{printable(text)!r} is no id of a broker.")
    return int(text)


def _broker_text(broker: BrokerStatus) -> str:
    where = ", ".join(f"{name}://{address}" for name, address in broker.listeners.items())
    state = "live" if broker.live else "stopped"
    text = f"broker {broker.node_id}  {where}  {state}  owns {broker.owned_partitions} partitions"
    if broker.rack is not None:
        text += f"  rack {printable(broker.rack)}"
    if broker.broker_epoch is not None:
        text += f"  epoch {broker.broker_epoch}"
    left_s = broker.session_left_seconds
    return text if left_s is None else f"{text}  session ends in {left_s:.1f} s"


def _status_text(status: ClusterStatus) -> str:
    lines = [_broker_text(broker) for broker in status.brokers]
    if status.etcd is not None:
        lines += _etcd_lines(status.etcd)
    for topic in dict.fromkeys(part.topic for part in status.partitions):
        lines.append(f"{'coordinators in ' if topic in COORDINATED else ''}{printable(topic)}")
        lines += _owner_lines([part for part in status.partitions if part.topic == topic])
    return "\n".join(lines)


def _owner_lines(parts: list[PartitionStatus]) -> list[str]:
    """A topic's partitions by who owns them, in lines that fit on a screen."""
    owned: dict[int | None, list[str]] = {}
    for part in parts:
        held = f"({part.engine_bytes}B)" if part.engine_bytes else ""
        owned.setdefault(part.owner, []).append(f"{part.partition}@{part.leader_epoch}{held}")
    lines = []
    for owner, names in sorted(owned.items(), key=lambda each: (each[0] is None, each[0] or 0)):
        who = "  nobody  " if owner is None else f"  broker {owner}  "
        lines += wrap(" ".join(names), _COLUMNS, initial_indent=who, subsequent_indent=" " * len(who))
    return lines


def _etcd_lines(etcd: EtcdStatus) -> list[str]:
    lines = []
    for node in etcd.nodes:
        if node.problem is not None:
            lines.append(f"etcd {node.endpoint}  does not answer: {printable(node.problem)}")
            continue
        part = "leader" if node.leader else "follower"
        size = f"{node.db_bytes:,} bytes, {100 * node.db_bytes // etcd.quota_bytes} % of its quota"
        lines.append(f"etcd {node.endpoint}  {printable(node.version)}  {part}  {size}")
    if etcd.single:
        lines.append("etcd has one node: while that is gone nothing is served. That is fine for tests.")
    if etcd.full:
        lines.append(
            "etcd is full (NOSPACE): it needs compaction, defragmentation and `etcdctl alarm disarm`."
        )
    if etcd.problem is not None:
        lines.append(f"etcd does not say who owns what: {printable(etcd.problem)}")
    return lines


def _moved_text(moved: Moved) -> str:
    name = f"{printable(moved.topic)}-{moved.partition}"
    if moved.before == moved.owner:
        return f"{name} is broker {moved.owner}'s already."
    whence = "nobody" if moved.before is None else f"broker {moved.before}"
    return f"{name} has come from {whence} to broker {moved.owner}."


_IN_VAIN: Final = (ProblemKind.NOT_POSSIBLE,)
ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/cluster",
        summary="The brokers of this process or cluster, and which of them owns which partition",
        handle=cluster_status,
        answer=ClusterStatus,
        text=_status_text,
        is_of_process=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/move",
        summary="Have another broker own a partition",
        handle=move,
        body=MoveBody,
        answer=Moved,
        text=_moved_text,
        changes=True,
        problems=(*_IN_VAIN, ProblemKind.NO_SUCH_TOPIC),
        is_of_process=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/brokers/{node_id}/stop",
        summary="Stop a broker of this process; what it coordinates goes to others",
        handle=stop,
        answer=BrokerStatus,
        text=_broker_text,
        changes=True,
        problems=_IN_VAIN,
        is_of_process=True,
    ),
    ApiRoute(
        method="POST",
        path="/cluster/brokers/{node_id}/start",
        summary="Start a broker again that was stopped",
        handle=start,
        answer=BrokerStatus,
        text=_broker_text,
        changes=True,
        problems=_IN_VAIN,
        is_of_process=True,
    ),
)
