"""A session played against one broker: the requests of the script and the resulting account."""

import re
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from protocol.apis import APIS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.schema import message_info
from tests.oracle.answer import Names, Plain, plain
from tests.oracle.session import Session
from tests.oracle.wire import Closed, NoAnswer, Wire

EVENT_TIMEOUT_S: Final = 60
AT: Final = "broker "
"""What connections are called that lead to one of several brokers: `broker 2`."""
LISTED: Final = {
    "groups": "group_id",
    "topics": "name",
    "replica_election_results": "topic",
    "config_resources": "resource_name",
    "transaction_states": "transactional_id",
}
"""Arrays of responses that list objects of the whole broker, with the name field of their items."""


@dataclass(frozen=True)
class Peer:
    """A broker that sessions are played against, and the versions that it answers."""

    bootstrap: str
    versions: Mapping[int, tuple[int, int]]
    restart: Callable[[], None] | None = None
    """Shuts the broker down cleanly and restarts it; returns when it is ready. None if restarts are not allowed."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Where it listens besides, by the name of the listener. A broker that does asks who its clients are."""
    brokers: Mapping[int, str] = field(default_factory=dict)
    """Where each of several brokers listens, by its node id; the first is `bootstrap`."""


class NotServed(Exception):
    """The session wants a version that this broker does not answer."""


class Entry(NamedTuple):
    """One step with a response: the connection, the request, and the response in comparable form."""

    label: str
    answer: Plain


@dataclass
class Account:
    """The result of a session: its responses, or why this broker cannot play it."""

    session: Session
    entries: list[Entry] = field(default_factory=list)
    unplayed: str = ""
    problem: str = ""
    """The script itself failed."""
    duration_s: float = 0.0


@dataclass(frozen=True)
class Topic:
    """A topic that the session created."""

    name: str
    id: bytes


class Play:
    """One session against one broker. Connections are called by letters; the first request opens one."""

    def __init__(self, session: Session, peer: Peer) -> None:
        self.account = Account(session)
        self.suffix = f"-{zlib.crc32(session.name.encode()):08x}"
        self.names = Names(self.suffix, refusals=bool(peer.listeners))
        self.entrances: dict[str, tuple[str, Callable[[Wire], object]]] = {}
        """The listeners at which connections arrive, by their names, and how they log in there."""
        self._peer = peer
        self._wires: dict[str, Wire] = {}
        self._labels: dict[str, list[tuple[str, int]]] = {}
        self._quiet = 0

    def run(self) -> Account:
        """Plays the whole session."""
        started = time.monotonic()
        try:
            self.account.session.script(self)
        except NotServed as reason:
            self.account.unplayed = str(reason)
        except Exception:  # noqa: BLE001 - a script that fails is a result, shown with where it did
            self.account.problem = traceback.format_exc()
        finally:
            for name in list(self._wires):
                self.drop(name)
        self.account.duration_s = time.monotonic() - started
        return self.account

    # Names

    def name(self, short: str) -> str:
        """The name that a group or topic of this session has on the wire."""
        return short + self.suffix

    @property
    def group(self) -> str:
        """The group of a session that needs only one."""
        return self.name("g")

    # Connections

    def wire(self, by: str = "a", client_id: str | None = "") -> Wire:
        """Return the connection `by`, and open it if needed.

        A new connection sends one request at once: the broker must have accepted it before the order of requests
        matters.

        Args:
            by: The name of the connection.
            client_id: The client id of its requests; "" for the name.
        """
        if by not in self._wires:
            listener, log_in = self.entrances.get(by, ("", None))
            own_id = by if client_id == "" else client_id
            if by.startswith(AT):
                wire = Wire(self._peer.brokers[int(by.removeprefix(AT))], own_id)
            else:
                wire = self.raw_wire(own_id, listener)
            self._wires[by] = wire
            self._labels[by] = []
            if log_in is not None:
                log_in(wire)
            wire.send(ApiVersionsRequest(), 0)
            wire.take()
        return self._wires[by]

    def raw_wire(self, client_id: str | None = "raw", listener: str = "") -> Wire:
        """Open a connection that the script closes itself. `listener` "" is the first listener."""
        return Wire(self._peer.listeners[listener] if listener else self._peer.bootstrap, client_id)

    def drop(self, by: str) -> None:
        """Close a connection, also with pending responses."""
        self._wires.pop(by).close()

    def restart(self) -> None:
        """Restarts the broker; every connection is a new one from here on. Only in the setup of `peers.ALONE`."""
        for name in list(self._wires):
            self.drop(name)
        assert self._peer.restart is not None
        self._peer.restart()

    # Requests

    def ask(self, request: Any, version: int, by: str = "a", note: str = "", own: bool = False) -> Any:
        """Send a request and return its response, or None if the broker closed the connection.

        `own` drops the objects of other sessions from a listing.
        """
        self._send(request, version, by, note)
        return self._take(by, own)

    def park(self, request: Any, version: int, by: str = "a", note: str = "") -> None:
        """Send a request that blocks, and return when the broker has handled it.

        Record an unexpected response.
        """
        self._send(request, version, by, note)
        self.settle(getattr(request, "group_id", self.group))
        label = self._labels[by][-1][0]
        if self.wire(by).has_answer():
            self.tell(label, "should wait, and does not")
        else:
            self.tell(label, "waits")

    def answer(self, by: str = "a") -> Any:
        """Wait for the response to a parked request."""
        return self._take(by)

    def still_waits(self, by: str) -> None:
        """Record whether the blocked request is still pending."""
        self.tell(f"{by} still", "has its answer" if self.wire(by).has_answer() else "waits")

    def settle(self, group: str) -> None:
        """Return when the broker has handled all earlier requests.

        A broker with one network thread and one request thread handles requests in order of arrival. The first
        request here may share a poll with earlier ones; the second cannot.
        """
        wire = self.wire("settling")
        for _ in range(2):
            wire.send(DescribeGroupsRequest(groups=[group]), 0)
            wire.take()

    def require(self, key: int, version: int) -> None:
        """Raises NotServed where the broker does not answer this version of an API."""
        first, last = self._peer.versions.get(key, (0, -1))
        if not first <= version <= last:
            raise NotServed(f"{APIS[key].name} v{version}")

    def _send(self, request: Any, version: int, by: str, note: str) -> None:
        key = message_info(type(request)).api_key
        self.require(key, version)
        wire = self.wire(by)
        self._labels[by].append(
            (f"{by} {APIS[key].name} v{version}" + (f" ({note})" if note else ""), version)
        )
        wire.send(request, version)

    def _take(self, by: str, own: bool = False) -> Any:
        label, version = self._labels[by].pop(0)
        try:
            answer = self.wire(by).take()
        except (Closed, NoAnswer) as end:
            self.tell(label, "closed" if isinstance(end, Closed) else "no answer")
            self.drop(by)
            return None
        if own:
            self._leave_out_others(answer)
        if not self._quiet:
            self.tell(label, plain(answer, version, self.names))
        elif getattr(answer, "member_id", None):
            self.names.member(answer.member_id)
        elif getattr(answer, "producer_id", -1) >= 0:
            self.names.producer(answer.producer_id)
        return answer

    def _leave_out_others(self, answer: Any) -> None:
        for part in (answer, *getattr(answer, "results", ())):
            for array, name in LISTED.items():
                if hasattr(part, array):
                    items = getattr(part, array)
                    own = [item for item in items if self.suffix in (getattr(item, name) or "")]
                    setattr(part, array, own)

    # The account

    def tell(self, label: str, answer: Plain) -> None:
        """Adds an entry to the account."""
        if not self._quiet:
            self.account.entries.append(Entry(label, answer))
        else:
            assert answer == "waits", f"{label}: {answer}"

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Steps inside are not recorded: they lead to the situation that the session is about."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    # Time

    def pause(self, duration_ms: int) -> None:
        """Lets time pass where that itself is the point: that something does not happen too early."""
        time.sleep(duration_ms / 1000)

    def until(self, reached: Callable[[], bool]) -> None:
        """Asks again and again, quietly. Raises AssertionError when it takes too long."""
        deadline = time.monotonic() + EVENT_TIMEOUT_S
        with self.quietly():
            while not reached():
                assert time.monotonic() < deadline, "it did not happen"
                time.sleep(0.02)

    def until_state(self, state: str, group: str = "") -> None:
        """Waits until the group is in this state."""
        request = DescribeGroupsRequest(groups=[group or self.group])
        self.until(lambda: self.ask(request, 0, "watch").groups[0].group_state == state)

    # What most sessions need

    def describe(self, group: str = "", version: int = 5, note: str = "") -> Any:
        """Tells how the group looks now."""
        return self.ask(DescribeGroupsRequest(groups=[group or self.group]), version, "admin", note)

    def topic(self, short: str = "orders", partitions: int = 2, **configs: str) -> Topic:
        """Create a topic and wait until it is usable. The keywords are configs with underscores for dots."""
        name = self.name(short)
        wanted = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        creation = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()],
        )
        with self.quietly():
            made = self.ask(CreateTopicsRequest(topics=[creation], timeout_ms=20000), 7, "admin")
        assert made.topics[0].error_code == 0, made
        topic = Topic(name, made.topics[0].topic_id)
        self.names.topics[topic.id] = f"id of {short}"
        self.until(lambda: self._usable(topic, partitions))
        return topic

    def topic_id(self, short: str) -> bytes:
        """The id of a topic as the broker names it now, known by that name from here on."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.name(short))], allow_auto_topic_creation=False
        )
        with self.quietly():
            found: bytes = self.ask(request, 12, "admin").topics[0].topic_id
        self.names.topics.setdefault(found, f"id of {short}")
        return found

    def _usable(self, topic: Topic, partitions: int) -> bool:
        asked = [ListOffsetsPartition(partition_index=row, timestamp=-1) for row in range(partitions)]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=asked)]
        )
        answer = self.ask(request, 7, "admin")
        return all(partition.error_code == 0 for partition in answer.topics[0].partitions)


def short_name(label: str) -> str:
    """`JoinGroup v9` of the label of an entry; "" where it names no request."""
    found = re.match(r"\S+ (\w+ v\d+)", label)
    return found[1] if found else ""
