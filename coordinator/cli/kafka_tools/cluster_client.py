"""A blocking client of a Kafka cluster for tools: sends one request at a time to any broker, to the leader of
a partition or to the coordinator of a group, and retries until a deadline.

Errors that Kafka's clients retry are retried within `default.api.timeout.ms`, because tools are often called
while the broker starts.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from typing import Any, Final, NamedTuple, TypeVar

from coordinator.cli.broker.broker_connection import BrokerConnection
from coordinator.cli.command_errors import BrokerError, ServerUnreachable
from coordinator.cli.kafka_tools.client_settings import ClientSettings
from coordinator.cli.kafka_tools.tool_errors import KafkaError, error_from_code, is_retriable
from coordinator.config.listeners import Address
from coordinator.core.clock import monotonic_ns
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)


def pause(duration_s: float) -> None:
    """Block the thread for a duration in seconds."""
    Event().wait(duration_s)


class Deadline:
    """An instant on the monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        """Create a deadline after `timeout_s` seconds; infinity means never."""
        self._end_s = monotonic_ns() / 1e9 + timeout_s

    @property
    def left_s(self) -> float:
        """The remaining seconds until the deadline; 0 after it."""
        return max(self._end_s - monotonic_ns() / 1e9, 0.0)

    def pause(self, duration_s: float) -> bool:
        """Pause for a duration in seconds, unless the deadline is earlier. Return whether the pause took
        place."""
        if duration_s > self.left_s:
            return False
        pause(duration_s)
        return True


Result = TypeVar("Result")

_CLIENT_ID: Final = "groupd"
_RETRY_PAUSE_S: Final = 0.1
_MAX_VERSIONS_WITH_NAMES: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
"""The newest versions that identify topics by name. Kafka's admin client uses no later ones either."""
_COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class CoordinatorNode(NamedTuple):
    """The broker that coordinates a group."""

    node_id: int
    address: Address


class ListedTopic(NamedTuple):
    """A topic as Metadata describes it."""

    name: str
    topic_id: bytes
    error_code: int
    partitions: list[MetadataResponsePartition]


class ClusterClient:
    """A client of a cluster. It opens one connection for each broker and purpose, at its first use."""

    def __init__(
        self, settings: ClientSettings, client_id: str = _CLIENT_ID, *, tries_forever: bool = False
    ) -> None:
        """Create a client without connections.

        Args:
            settings: the connection settings.
            client_id: the client id of all requests.
            tries_forever: whether to wait for a broker without limit.
        """
        self._settings = settings
        self._client_id = settings.properties.get("client.id", client_id)
        self._timeout_s = float("inf") if tries_forever else settings.api_timeout_s
        self._connections: dict[tuple[Address, str], BrokerConnection] = {}
        self._bootstrap: Address | None = None
        self._coordinators: dict[str, CoordinatorNode] = {}
        self.brokers: dict[int, Address] = {}
        """The brokers by node id, as the last Metadata response named them."""

    def close(self) -> None:
        """Close all connections of the client."""
        for connection in self._connections.values():
            connection.close()

    def send_request(self, request: Any) -> Any:
        """Send a request to any broker and return its response. Raises KafkaError."""
        return self._send_to_first([self._bootstrap] if self._bootstrap else [], request)

    def send_to_broker(
        self, node_id: int, request: Any, purpose: str = "", timeout_s: float | None = None
    ) -> Any:
        """Send a request to one broker, without retries, and return the response.

        Args:
            node_id: the broker.
            request: the request.
            purpose: requests of different purposes use different connections.
            timeout_s: the timeout of the response in seconds; None: the default.

        Raises:
            KafkaError: the broker is unavailable or does not respond in time.
        """
        if node_id not in self.brokers:
            self.fetch_metadata([])
        address = self.brokers.get(node_id)
        if address is None:
            raise error_from_code(ErrorCode.NETWORK_EXCEPTION, f"The broker {node_id} is not available")
        return self._send_to_address(address, request, purpose, timeout_s)

    def send_to_all_brokers(self, request: Any) -> dict[int, Any]:
        """Send a request to all brokers and return the responses by node id. Raises KafkaError."""
        self.fetch_metadata([])
        answers: dict[int, Any] = {}

        def ask_others() -> None:
            for node_id in sorted(self.brokers.keys() - answers.keys()):
                answers[node_id] = self.send_to_broker(node_id, request)

        self.retry_unreachable(ask_others)
        return answers

    def limit_retries(self, timeout_s: float) -> None:
        """Limit further retries to `timeout_s` seconds, because the program is ending."""
        self._timeout_s = min(self._timeout_s, timeout_s)

    def fetch_metadata(self, topics: Sequence[str] | None, *, creates: bool = False) -> MetadataResponse:
        """Return the metadata of topics, or of all topics for None. `creates` lets the broker create missing
        topics. Raises KafkaError.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = self.send_request(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        )
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return answer

    def fetch_topics(self, topics: Sequence[str] | None, *, creates: bool = False) -> list[ListedTopic]:
        """Return the topics of `fetch_metadata`, with their names. Raises KafkaError."""
        return [
            ListedTopic(topic.name, topic.topic_id, topic.error_code, topic.partitions)
            for topic in self.fetch_metadata(topics, creates=creates).topics
            if topic.name is not None
        ]

    def fetch_leaders(self, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        """Return the node id of each partition's leader. Raises KafkaError for a topic that does not exist."""

        def fetch() -> dict[tuple[str, int], int]:
            leaders: dict[tuple[str, int], int] = {}
            for topic in self.fetch_topics(topics):
                check_error(topic)
                for partition in topic.partitions:
                    if partition.leader_id < 0:
                        check_error(partition)
                        raise error_from_code(ErrorCode.LEADER_NOT_AVAILABLE)
                    leaders[topic.name, partition.partition_index] = partition.leader_id
            return leaders

        retried = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.retry(fetch, lambda error: error.error_code in retried)

    def find_coordinator(self, group: str) -> CoordinatorNode:
        """Return the coordinator of a group. Raises KafkaError."""
        from protocol.messages.find_coordinator import FindCoordinatorRequest

        def find() -> CoordinatorNode:
            answer = self.send_request(
                FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
            )
            found = answer.coordinators[0] if answer.coordinators else answer
            check_error(found)
            return CoordinatorNode(found.node_id, Address(found.host, found.port))

        if group not in self._coordinators:
            self._coordinators[group] = self.retry(find, lambda error: error.is_retriable)
        return self._coordinators[group]

    def send_to_coordinator(
        self,
        group: str,
        request: Any,
        read_error_code: Callable[[Any], int] = lambda answer: int(answer.error_code),
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request to the coordinator of a group, and look the coordinator up again while it moves. Return
        the response.

        `read_error_code` returns the error code of a response; `timeout_s` is the timeout of one response in
        seconds. Raises KafkaError.
        """

        def send_to_coordinator() -> Any:
            address = self.find_coordinator(group).address
            try:
                answer = self._send_to_address(address, request, "coordinator", timeout_s)
            except KafkaError:
                self._coordinators.pop(group, None)
                raise
            code = read_error_code(answer)
            if code in _COORDINATOR_MOVED:
                self._coordinators.pop(group, None)
                raise error_from_code(code)
            return answer

        retried = (*_COORDINATOR_MOVED, ErrorCode.NETWORK_EXCEPTION)
        return self.retry(send_to_coordinator, lambda error: error.error_code in retried)

    def fetch_versions(self, node_id: int) -> Mapping[int, range]:
        """Return the API versions that a broker serves, by API key. Raises KafkaError."""
        connection = self._connect(self.brokers[node_id], "")
        try:
            return connection.fetch_versions()
        except (ServerUnreachable, BrokerError) as error:
            raise _as_kafka_error(error) from error

    def retry(self, call: Callable[[], Result], is_retried: Callable[[KafkaError], bool]) -> Result:
        """Return the result of a call, repeated while `is_retried` accepts its error. Raises KafkaError."""
        deadline = Deadline(self._timeout_s)
        while True:
            try:
                return call()
            except KafkaError as error:
                if not is_retried(error) or not deadline.pause(_RETRY_PAUSE_S):
                    raise

    def retry_unreachable(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call, repeated while no broker answers. Raises KafkaError."""
        return self.retry(call, lambda error: error.error_code == ErrorCode.NETWORK_EXCEPTION)

    def _send_to_first(self, known: Iterable[Address], request: Any) -> Any:
        """Send a request to the first broker that responds: known brokers first, then those of the bootstrap
        list."""
        addresses = [*known, *self._settings.bootstrap]

        def try_addresses() -> Any:
            for address in addresses[:-1]:
                try:
                    return self._send_to_bootstrap(address, request)
                except KafkaError as error:
                    if error.error_code != ErrorCode.NETWORK_EXCEPTION:
                        raise
            return self._send_to_bootstrap(addresses[-1], request)

        return self.retry_unreachable(try_addresses)

    def _send_to_bootstrap(self, address: Address, request: Any) -> Any:
        answer = self._send_to_address(address, request, "", None)
        self._bootstrap = address
        return answer

    def _send_to_address(self, address: Address, request: Any, purpose: str, timeout_s: float | None) -> Any:
        try:
            return self._connect(address, purpose).send_request(request, timeout_s)
        except (ServerUnreachable, BrokerError) as error:
            self._connections.pop((address, purpose)).close()
            raise _as_kafka_error(error) from error

    def _connect(self, address: Address, purpose: str) -> BrokerConnection:
        connection = self._connections.get((address, purpose))
        if connection is None:
            settings = self._settings
            connection = BrokerConnection(
                *address,
                settings.request_timeout_s,
                settings.security,
                self._client_id,
                _MAX_VERSIONS_WITH_NAMES,
            )
            self._connections[address, purpose] = connection
        return connection


def check_error(answer: Any) -> None:
    """Check the error code of a response, or of a part of one. Raises KafkaError."""
    if answer.error_code != ErrorCode.NONE:
        raise error_from_code(answer.error_code, getattr(answer, "error_message", None))


def _as_kafka_error(error: Exception) -> KafkaError:
    if isinstance(error, BrokerError):
        return error_from_code(error.error_code, error.message)
    cause = error.__cause__
    if isinstance(cause, socket.gaierror):
        return KafkaError(
            f"No resolvable bootstrap urls given in bootstrap.servers. {error}", "ConfigException"
        )
    if isinstance(cause, ssl.SSLError):
        return KafkaError(str(error), "SslAuthenticationException")
    if isinstance(cause, (OSError, EOFError)):
        code = ErrorCode.NETWORK_EXCEPTION
        return KafkaError(str(error), "TimeoutException", is_retriable=is_retriable(code), error_code=code)
    return KafkaError(str(error), "UnsupportedVersionException")
