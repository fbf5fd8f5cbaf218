"""State of etcd: waits for it at the start, checks its nodes regularly, and reads tokens, epochs and sessions
for operators.

The start fails with a message when etcd does not answer within 15 s, rejects the credentials or is older than
3.4. The periodic check logs unresponsive nodes, a nearly full database and a full one, and logs when a node
or writes recover.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeVar

from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, parse_number, parse_partition
from coordinator.cluster.key_value_store import (
    EtcdNodeStatus,
    KeyValueStore,
    KeyValueStoreError,
    StoreAccessDenied,
)
from coordinator.cluster.member.cluster_table import ClusterTable
from coordinator.cluster.member.key_mirror import read_range
from coordinator.core.message_text import StartFailed
from storage.storage_errors import format_error_reason
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
PERIOD_S: Final = 10.0
DEFAULT_QUOTA_BYTES: Final = 2 << 30
"""etcd's own default quota."""
_NEARLY_FULL: Final = 0.7
_NO_LONGER_NEARLY_FULL: Final = 0.65
"""Share below which a database counts as small enough again. The gap prevents repeated warnings at the limit."""

CONNECT_TIMEOUT_S: Final = 15.0
_RETRY_S: Final = 0.2
_MIN_VERSION: Final = (3, 4)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_VIEW_TIMEOUT_S: Final = 2.0
T = TypeVar("T")


class NodeStatusSource(Protocol):
    """A source of the status of etcd's nodes."""

    async def fetch_node_statuses(self) -> Sequence[EtcdNodeStatus]:
        """Return the status of all nodes. Raises nothing."""


class EtcdHealth:
    """The health of etcd's nodes, checked regularly. All methods belong to the event loop's thread."""

    def __init__(self, store: NodeStatusSource, quota_bytes: int) -> None:
        """Create the check. `quota_bytes` is the configured maximum size of the database; 0 if not configured."""
        self.nodes: Sequence[EtcdNodeStatus] = ()
        """Statuses at the last check."""
        self._store = store
        self._quota_bytes = quota_bytes
        self._unresponsive: set[str] = set()
        self._is_full = self._is_nearly_full = False
        self._task: asyncio.Task[None] | None = None

    @property
    def quota_bytes(self) -> int:
        """Maximum size of the database: the configured, the reported or the default one."""
        reported = min((node.quota_bytes for node in self.nodes if node.quota_bytes), default=0)
        return self._quota_bytes or reported or DEFAULT_QUOTA_BYTES

    @property
    def size_bytes(self) -> int:
        """Size of the largest database of a node."""
        return max((node.size_bytes for node in self.nodes), default=0)

    @property
    def is_full(self) -> bool:
        """Whether a node has raised the alarm NOSPACE, after which no node accepts writes."""
        return any(node.is_full for node in self.nodes)

    def start(self) -> None:
        """Start the periodic check."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop the periodic check."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.check_nodes()
            except Exception as problem:  # noqa: BLE001 - the next check may succeed
                _LOG.error("Failed to read the status of etcd", exc_info=problem)
            await asyncio.sleep(PERIOD_S)

    async def check_nodes(self) -> None:
        """Check every node, and log the changes."""
        self.nodes = await self._store.fetch_node_statuses()
        self._log_unresponsive()
        self._log_size()

    def _log_unresponsive(self) -> None:
        for node in self.nodes:
            if node.problem and node.endpoint not in self._unresponsive:
                self._unresponsive.add(node.endpoint)
                _LOG.warning("etcd at %s does not answer: %s", node.endpoint, node.problem)
            elif not node.problem and node.endpoint in self._unresponsive:
                self._unresponsive.remove(node.endpoint)
                _LOG.info("etcd at %s answers again", node.endpoint)

    def _log_size(self) -> None:
        if not self.size_bytes:
            return
        was_full, self._is_full = self._is_full, self.is_full
        if self._is_full and not was_full:
            _LOG.error(
                "etcd is full (alarm NOSPACE, %d bytes) and rejects commits: compact and defragment it, and "
                "disarm the alarm",
                self.size_bytes,
            )
        elif was_full and not self._is_full:
            _LOG.info("etcd accepts writes again")
        share = self.size_bytes / self.quota_bytes
        if share >= _NEARLY_FULL and not self._is_nearly_full:
            self._is_nearly_full = True
            _LOG.warning(
                "The database of etcd has %d bytes of its quota of %d: set --auto-compaction-retention, and "
                "defragment it",
                self.size_bytes,
                self.quota_bytes,
            )
        elif share < _NO_LONGER_NEARLY_FULL:
            self._is_nearly_full = False


class EtcdClient(KeyValueStore, Protocol):
    """A `KeyValueStore` on etcd that also reports the status of its nodes."""

    endpoints: tuple[str, ...]

    async def fetch_version(self) -> str:
        """Return the release of the connected node. Raises KeyValueStoreError."""

    async def fetch_node_statuses(self) -> list[EtcdNodeStatus]:
        """Return the status of every node. Raises nothing."""

    async def fetch_lease_left_s(self, lease: int) -> int:
        """Return the seconds until a lease ends without a renewal. Raises KeyValueStoreError."""


async def wait_for_etcd(store: EtcdClient, ask: Callable[[], Awaitable[T]]) -> T:
    """Call `ask` until it succeeds and return its result.

    Raises:
        StartFailed: etcd did not answer in CONNECT_TIMEOUT_S, rejects the user, or is too old.
    """
    endpoints = ", ".join(store.endpoints)
    problem: KeyValueStoreError | None = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            while True:
                try:
                    _check_version(await store.fetch_version())
                    return await ask()
                except StoreAccessDenied as error:
                    raise StartFailed(
                        f"cluster.etcd.username: etcd ({endpoints}) rejects this broker: {error}"
                    ) from error
                except KeyValueStoreError as error:
                    if problem is None:
                        _LOG.warning("Waiting for etcd (%s): %s", endpoints, error)
                    problem = error
                    await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise StartFailed(
            f"cluster.etcd.endpoints: no answer from etcd ({endpoints}) in {CONNECT_TIMEOUT_S:.0f} s: {problem}"
        ) from problem


def _check_version(version: str) -> None:
    found = _VERSION.match(version)
    if found is None or (int(found[1]), int(found[2])) < _MIN_VERSION:
        raise StartFailed(f"cluster.etcd.endpoints: etcd {version} is too old: use 3.4 or later")


class EtcdView(NamedTuple):
    """A recent view of etcd. Data that could not be read is missing, and `problem` has the reason."""

    nodes: Sequence[EtcdNodeStatus]
    quota_bytes: int
    tokens: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    """Last leader epochs by partition."""
    sessions_left_s: Mapping[int, float]
    """Seconds until the session of a broker ends without a renewal."""
    engine_bytes: Mapping[TopicPartition, int]
    """Bytes in the store by partition, for the partitions that this daemon owns."""
    problem: str


class EtcdKeySnapshot(NamedTuple):
    """Tokens, epochs and sessions, which only etcd knows."""

    tokens: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    sessions_left_s: Mapping[int, float]
    problem: str


async def read_key_snapshot(store: EtcdClient, keys: ClusterKeys, table: ClusterTable) -> EtcdKeySnapshot:
    """Read tokens, epochs and sessions within _VIEW_TIMEOUT_S. `table` has the live brokers."""
    tokens: dict[TopicPartition, int] = {}
    epochs: dict[TopicPartition, int] = {}
    left: dict[int, float] = {}
    problem = ""
    try:
        async with asyncio.timeout(_VIEW_TIMEOUT_S):
            for kind, found in (("owner", tokens), ("epoch", epochs)):
                begin, end = keys.kind_range(kind)
                entries, _ = await read_range(store, begin, end)
                for entry in entries:
                    with suppress(UnreadableKey):  # the table of the cluster names it
                        value = entry.written_at if kind == "owner" else parse_number(entry.value)
                        found[TopicPartition(*parse_partition(entry.key[len(begin) :]))] = value
            for node_id, broker in list(table.brokers.items()):
                left[node_id] = await store.fetch_lease_left_s(broker.lease)
    except (KeyValueStoreError, TimeoutError) as error:
        problem = format_error_reason(error)
    return EtcdKeySnapshot(tokens, epochs, left, problem)
