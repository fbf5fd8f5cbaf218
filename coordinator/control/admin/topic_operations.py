"""Operations on topics for the control API: list, create and delete, through CreateTopics and DeleteTopics.

`InternalTopicClient` sends these requests to the data plane without a client connection.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.broker.services import Services
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIG_KEYS
from coordinator.control.group_client import CLIENT_HOST, CLIENT_ID, create_awaitable_reply
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.message_text import printable, suggest
from coordinator.core.response_status import BLOCKED
from coordinator.core.shared_types import Node
from coordinator.core.time_budget import TimeBudget
from coordinator.core.wire_name import wire_name
from coordinator.network.request_context import ApiCounts, ClientInfo, RequestContext, ResponseEncoder
from coordinator.security.core.principal import ANONYMOUS
from coordinator.topics.topic import ZERO_ID, Topic
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from storage.topic_partition import uuid_to_text

_CREATE_VERSION = 7
_DELETE_VERSION = 6
_TIMEOUT_MS = 60_000
_BROKER_DEFAULT = -1
_PROBLEM_KINDS: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: ProblemKind.NAME_TAKEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ProblemKind.NO_SUCH_TOPIC,
}


@wire_name("TopicDescription")
class TopicDescription(Struct, frozen=True, kw_only=True):
    """A topic. `topic_id` is a UUID as Kafka writes it."""

    name: str
    topic_id: str
    partitions: int


class TopicOperations:
    """Lists, creates and deletes topics. All methods belong to the event loop's thread."""

    def __init__(self, services: Services, actions: ActionLog) -> None:
        self._catalogue = services.data_plane.catalogue
        self._run_queue = services.run_queue
        self._topic_client = InternalTopicClient(services)
        self._actions = actions

    async def list_topics(self) -> list[TopicDescription]:
        """Return a description of each topic that is not internal, in the order of the names."""
        budget = TimeBudget(self._run_queue)
        found = []
        for topic in self._catalogue:
            is_deleted = self._catalogue.find_topic(topic.name) is not topic  # at a checkpoint
            if not (topic.is_internal or is_deleted):
                found.append(_describe_topic(topic))
            await budget.checkpoint()
        return found

    async def create_topic(
        self, name: str, partitions: int | None, configs: Mapping[str, str], by: str | None
    ) -> TopicDescription:
        """Create a topic. The default of `partitions` is num.partitions. Raises Problem (name-taken, refused)."""
        [created] = await self._create([_build_topic(name, partitions, configs)])
        self._actions.record_action("topic", f"made {name} with {created.partitions} partitions", by=by)
        return created

    async def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics for a new broker, by name and number of partitions. Raises Problem as `create_topic`
        does."""
        await self._create([_build_topic(name, number, {}) for name, number in partitions.items()])

    async def _create(self, wanted: list[CreatableTopic]) -> list[TopicDescription]:
        request = CreateTopicsRequest(topics=wanted, timeout_ms=_TIMEOUT_MS)
        answer: CreateTopicsResponse = await self._topic_client.request(
            request, ApiKey.CREATE_TOPICS, _CREATE_VERSION
        )
        hints = {topic.name: _config_hint(topic) for topic in wanted}
        for result in answer.topics:
            what = f"Topic {printable(result.name)} was not created"
            hint = hints[result.name] if result.error_code == ErrorCode.INVALID_CONFIG else ""
            self._raise_for_error(result.error_code, result.error_message, what, hint)
        return [
            TopicDescription(
                name=result.name,
                topic_id=uuid_to_text(result.topic_id),
                partitions=result.num_partitions,
            )
            for result in answer.topics
        ]

    async def delete_topic(self, name: str, by: str | None) -> None:
        """Delete a topic. Raises Problem (no-such-topic, refused)."""
        states = [DeleteTopicState(name=name, topic_id=ZERO_ID)]
        request = DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)
        answer: DeleteTopicsResponse = await self._topic_client.request(
            request, ApiKey.DELETE_TOPICS, _DELETE_VERSION
        )
        (result,) = answer.responses
        self._raise_for_error(
            result.error_code, result.error_message, f"Topic {printable(name)} was not deleted"
        )
        self._actions.record_action("topic", f"deleted {name}", by=by)

    @staticmethod
    def _raise_for_error(code: int, message: str | None, what: str, hint: str = "") -> None:
        error = ErrorCode(code)
        if error is ErrorCode.NONE:
            return
        kind = _PROBLEM_KINDS.get(error, ProblemKind.REFUSED)
        detail = f"{what}: {printable(message or error.message)}{hint}"
        raise Problem(kind, what, detail, {"error": error.name})


def _build_topic(name: str, partitions: int | None, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=_BROKER_DEFAULT if partitions is None else partitions,
        replication_factor=_BROKER_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def _config_hint(topic: CreatableTopic) -> str:
    """Suggest a property with a name similar to the first unknown one. Kafka's own message has no suggestion."""
    known = [*TOPIC_CONFIG_KEYS, INTERNAL_SEGMENT_BYTES.name]
    unknown = next((config.name for config in topic.configs if config.name not in known), None)
    return "" if unknown is None else f" {suggest(unknown, known)}"


def _describe_topic(topic: Topic) -> TopicDescription:
    return TopicDescription(
        name=topic.name, topic_id=uuid_to_text(topic.topic_id), partitions=len(topic.partitions)
    )


class InternalTopicClient:
    """Sends topic requests to the data plane of a server. All methods belong to the event loop's thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def request(self, request: Any, api_key: ApiKey, api_version: int) -> Any:
        """Send a request to the data plane and return the response, which need not wait for records.

        A change that has begun is completed, even if the caller is cancelled.
        """
        services = self._services
        services.arrival.advance(clock.monotonic_ns())
        client = ClientInfo(
            client_id=CLIENT_ID,
            host=CLIENT_HOST,
            connection_id=0,
            principal=ANONYMOUS,
            node=Node(services.settings.config.node_id, "", -1),
            peer=CLIENT_ID,
        )
        reply, answer = create_awaitable_reply()
        encoder = ResponseEncoder(APIS[api_key], api_version, ApiCounts())
        context = RequestContext(client, encoder, 0, None, api_version, open_reply=reply.reopen)
        response = services.topics.handle(request, context)
        return await answer if response is BLOCKED else response
