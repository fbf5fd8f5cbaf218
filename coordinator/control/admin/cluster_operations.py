"""Queries and commands about several brokers, in one process or in a cluster."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from coordinator.broker.services import Services
from coordinator.cluster.partition_ownership import ClusterOperationError, MoveCause
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.core.wire_name import wire_name
from coordinator.topics.partition_leadership import find_leader_epoch
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.cluster.daemon.etcd_status import EtcdView

T = TypeVar("T")

ACTION_KIND: Final = "cluster"
LONGEST_HOLD_MS: Final = 600_000
ARRIVAL_TIMEOUT_S: Final = 10


@wire_name("BrokerStatus")
class BrokerStatus(Struct, frozen=True, kw_only=True):
    """A broker. `live` is false for a stopped broker. `listeners` has the advertised address of each listener.
    `owned_partitions` is the number of partitions that the broker coordinates or leads. In a cluster on etcd
    `broker_epoch` is the revision of the broker's registration, and `session_left_seconds` the time until other
    brokers take over without a renewal. Both are null without etcd, and while etcd does not answer."""

    node_id: int
    live: bool
    listeners: dict[str, str]
    owned_partitions: int
    rack: str | None = None
    broker_epoch: int | None = None
    session_left_seconds: float | None = None


@wire_name("PartitionStatus")
class PartitionStatus(Struct, frozen=True, kw_only=True):
    """A partition. `owner` is its coordinator or leader, or null. `leader_epoch` is 0 while its log is closed.
    `token` is the token that each append to a coordinator partition on etcd must match. `engine_bytes` is the
    size in etcd of a partition that the queried broker owns."""

    topic: str
    partition: int
    owner: int | None
    replicas: list[int]
    leader_epoch: int
    token: int | None = None
    engine_bytes: int | None = None


@wire_name("EtcdNode")
class EtcdNode(Struct, frozen=True, kw_only=True):
    """A node of etcd. `problem` is the reason why it did not answer; the other fields are then unknown."""

    endpoint: str
    version: str
    leader: bool
    db_bytes: int
    problem: str | None


@wire_name("EtcdStatus")
class EtcdStatus(Struct, frozen=True, kw_only=True):
    """The etcd of a cluster. `single`: it has one node, so a loss of that node ends all service. `full`: it
    accepts no writes (alarm NOSPACE). `problem` is the reason why it does not report the owners."""

    nodes: list[EtcdNode]
    quota_bytes: int
    full: bool
    single: bool
    problem: str | None


@wire_name("ClusterStatus")
class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The brokers and the partitions of a cluster. `moves` counts the changes and losses of owners by cause.
    `etcd` is null without etcd."""

    brokers: list[BrokerStatus]
    partitions: list[PartitionStatus]
    moves: dict[str, int]
    etcd: EtcdStatus | None = None


@wire_name("Moved")
class PartitionMove(Struct, frozen=True, kw_only=True):
    """A moved partition. `before` is null without a previous owner, and equals `owner` if nothing had to move."""

    topic: str
    partition: int
    before: int | None
    owner: int


class ClusterOperations:
    def __init__(self, services: Services, actions: ActionLog) -> None:
        self._services = services
        self._brokers = services.brokers
        self._membership = services.membership
        self._actions = actions
        services.membership.observe_ownership(self)

    def on_owner_changed(
        self, partition: TopicPartition, before: int | None, owner: int | None, cause: MoveCause
    ) -> None:
        """Record the moves that administrators request over Kafka's protocol as actions."""
        if cause in (MoveCause.REASSIGNED, MoveCause.ELECTED):
            self._actions.record_action(ACTION_KIND, f"{_format_move(partition, before, owner)}: {cause}")

    def on_ownership_reported(self, partition: TopicPartition, what: str) -> None:
        """Record a change of ownership in a cluster on etcd."""
        self._actions.record_action(ACTION_KIND, f"{partition}: {what}", is_logged=True)

    async def describe_cluster(self) -> ClusterStatus:
        """Return the current state of the cluster."""
        view = await self._membership.collect_etcd_view()
        ownership = self._membership.ownership
        known = sorted({*self._brokers.listeners, *ownership.brokers})
        owned = dict.fromkeys(known, 0)
        partitions = []
        for topic in self._services.data_plane.catalogue:
            for partition in topic.partitions:
                owner = ownership.find_owner(partition.name)
                if owner is not None:
                    owned[owner] += 1
                partitions.append(
                    PartitionStatus(
                        topic=topic.name,
                        partition=partition.name.partition,
                        owner=owner,
                        replicas=list(ownership.find_replicas(partition.name)),
                        leader_epoch=find_leader_epoch(partition, ownership)
                        if view is None
                        else view.epochs.get(partition.name, find_leader_epoch(partition, ownership)),
                        token=None if view is None else view.tokens.get(partition.name),
                        engine_bytes=None if view is None else view.engine_bytes.get(partition.name),
                    )
                )
        return ClusterStatus(
            brokers=[self._describe_broker(node_id, owned[node_id], view) for node_id in known],
            partitions=partitions,
            moves=self._membership.moves,
            etcd=None if view is None else _describe_etcd(view),
        )

    def _describe_broker(self, node_id: int, owned: int, view: "EtcdView | None" = None) -> BrokerStatus:
        broker, own = self._membership.ownership.brokers.get(node_id), self._brokers.listeners.get(node_id)
        if own is not None:
            listeners = {
                endpoint.listener.name: str(endpoint.advertised_address or endpoint.bound_address)
                for endpoint in own.endpoints
            }
        else:
            assert broker is not None, node_id
            listeners = {name: f"{host}:{broker.ports[name]}" for name, host in broker.hosts.items()}
        return BrokerStatus(
            node_id=node_id,
            live=broker is not None,
            listeners=listeners,
            owned_partitions=owned,
            rack=None if broker is None else broker.rack,
            broker_epoch=None if broker is None or not broker.epoch else broker.epoch,
            session_left_seconds=None if view is None else view.sessions_left_s.get(node_id),
        )

    # Changes

    def move_group(self, group_id: str, to: int, hold_loading_ms: int, by: str | None) -> PartitionMove:
        """Move the coordinator of a group, which need not exist. Raises Problem: bad-request, not-possible."""
        partition = self._services.runtime.find_partition(group_id).name
        return self._start_move(partition, to, hold_loading_ms, group_id, by)

    def move_partition(
        self, topic: str, number: int, to: int, hold_loading_ms: int, by: str | None
    ) -> PartitionMove:
        """Move a partition to broker `to`. Raises Problem: bad-request, no-such-topic, not-possible."""
        found = self._services.data_plane.catalogue.find_topic(topic)
        if found is None:
            detail = f"Topic {printable(topic)} does not exist."
            raise Problem(ProblemKind.NO_SUCH_TOPIC, f"topic {printable(topic)} does not exist", detail)
        if not 0 <= number < len(found.partitions):
            detail = f"{topic} has {len(found.partitions)} partitions, numbered from 0."
            raise Problem(
                ProblemKind.BAD_REQUEST,
                f"partition {number} does not exist",
                detail,
                {"pointer": "/partition"},
            )
        return self._start_move(TopicPartition(topic, number), to, hold_loading_ms, None, by)

    def _start_move(
        self, partition: TopicPartition, to: int, hold_loading_ms: int, group_id: str | None, by: str | None
    ) -> PartitionMove:
        if not 0 <= hold_loading_ms <= LONGEST_HOLD_MS:
            detail = "hold_loading must be at most 10 minutes."
            raise Problem(
                ProblemKind.BAD_REQUEST, "hold_loading is invalid", detail, {"pointer": "/hold_loading"}
            )
        if hold_loading_ms and partition.topic not in self._services.engine.runtimes:
            detail = (
                f"hold_loading: {partition.topic} is not a topic of coordinators, which alone can be loading."
            )
            raise Problem(
                ProblemKind.BAD_REQUEST, "hold_loading is invalid", detail, {"pointer": "/hold_loading"}
            )
        before = self._membership.ownership.find_owner(partition)
        has_moved = _raise_as_problem(
            lambda: self._membership.move_partition(partition, to, hold_loading_ms / 1000)
        )
        if has_moved:
            self._actions.record_action(ACTION_KIND, _format_move(partition, before, to), group_id, by)
        return PartitionMove(topic=partition.topic, partition=partition.partition, before=before, owner=to)

    async def await_arrival(self, moved: PartitionMove) -> PartitionMove:
        """Wait until the new owner has claimed a moved partition. Raises Problem (not-possible) on a timeout."""
        ownership, partition = self._membership.ownership, TopicPartition(moved.topic, moved.partition)
        try:
            async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
                while True:
                    if ownership.find_owner(partition) == moved.owner:
                        return moved
                    await asyncio.sleep(ARRIVAL_TIMEOUT_S / 500)
        except TimeoutError:
            why = f"broker {moved.owner} did not take over {partition} within {ARRIVAL_TIMEOUT_S} s"
            raise Problem(
                ProblemKind.NOT_POSSIBLE, "not possible", f"The request is recorded, but {why}."
            ) from None

    def stop_broker(self, node_id: int, by: str | None) -> BrokerStatus:
        """Stop a broker of this process. Raises Problem (not-possible)."""
        _raise_as_problem(lambda: self._membership.stop_broker(node_id))
        return self._record_broker_action(node_id, f"broker {node_id} stops", by)

    def start_broker(self, node_id: int, by: str | None) -> BrokerStatus:
        """Start a stopped broker of this process. Raises Problem (not-possible)."""
        _raise_as_problem(lambda: self._membership.start_broker(node_id))
        return self._record_broker_action(node_id, f"broker {node_id} starts", by)

    def _record_broker_action(self, node_id: int, what: str, by: str | None) -> BrokerStatus:
        self._actions.record_action(ACTION_KIND, what, None, by)
        return self._describe_broker(node_id, self._count_owned_partitions(node_id))

    def _count_owned_partitions(self, node_id: int) -> int:
        owns = self._membership.ownership.owns
        catalogue = self._services.data_plane.catalogue
        return sum(owns(node_id, partition.name) for topic in catalogue for partition in topic.partitions)


def _describe_etcd(view: "EtcdView") -> EtcdStatus:
    return EtcdStatus(
        nodes=[
            EtcdNode(
                endpoint=node.endpoint,
                version=node.version,
                leader=node.is_leader,
                db_bytes=node.size_bytes,
                problem=node.problem or None,
            )
            for node in view.nodes
        ],
        quota_bytes=view.quota_bytes,
        full=any(node.is_full for node in view.nodes),
        single=len(view.nodes) == 1,
        problem=view.problem or None,
    )


def default_topic(topic: str | None) -> str:
    """Return the topic, by default `__consumer_offsets`."""
    return CONSUMER_OFFSETS if topic is None else topic


def _format_move(partition: TopicPartition, before: int | None, owner: int | None) -> str:
    whence = "" if before is None else f" from broker {before}"
    return f"{partition} moves{whence} to {'no broker' if owner is None else f'broker {owner}'}"


def _raise_as_problem(operation: Callable[[], T]) -> T:
    try:
        return operation()
    except ClusterOperationError as error:
        raise Problem(
            ProblemKind.NOT_POSSIBLE, "not possible", f"The change is impossible: {error}."
        ) from error
