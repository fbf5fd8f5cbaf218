"""The topics of a server: listed, made, deleted, as CreateTopics and DeleteTopics do."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIG_KEYS
from coordinator.control.acts import Acts
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.slices import Slices
from coordinator.control.topics.asking import TopicAsker
from coordinator.net.peer import printable
from coordinator.server.server import Server
from coordinator.suggestions import suggest
from coordinator.topics.topic import ZERO_ID, Topic
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from storage.uuid_text import uuid_to_text

_CREATE_VERSION = 7
_DELETE_VERSION = 6
_TIMEOUT_MS = 60_000
_DEFAULT = -1
_KINDS: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: ProblemKind.NAME_TAKEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ProblemKind.NO_SUCH_TOPIC,
}


class TopicDescription(Struct, frozen=True, kw_only=True):
    """A topic. `topic_id` is a UUID as Kafka writes it."""

    name: str
    topic_id: str
    partitions: int


class Topics:
    """All methods belong to the event loop's thread."""

    def __init__(self, server: Server, acts: Acts) -> None:
        self._catalogue = server.data_plane.catalogue
        self._asker = TopicAsker(server)
        self._acts = acts

    async def all(self) -> list[TopicDescription]:
        """Those that are not the broker's own, in the order of their names."""
        slices = Slices()
        found = []
        for topic in sorted(self._catalogue, key=lambda topic: topic.name):
            if not topic.is_internal:
                found.append(_described(topic))
            await slices.rest()
        return found

    async def make(
        self, name: str, partitions: int | None, configs: Mapping[str, str], by: str | None
    ) -> TopicDescription:
        """Makes a topic. In: None for as many partitions as num.partitions says. Raises Problem (name-taken,
        refused)."""
        [made] = await self._create([_wanted(name, partitions, configs)])
        self._acts.note("topic", f"made {name} with {made.partitions} partitions", by=by)
        return made

    async def make_all(self, partitions: Mapping[str, int]) -> None:
        """Makes topics, for a broker that has just begun. In: partitions by topic. Raises Problem as `make`."""
        await self._create([_wanted(name, number, {}) for name, number in partitions.items()])

    async def _create(self, wanted: list[CreatableTopic]) -> list[TopicDescription]:
        request = CreateTopicsRequest(topics=wanted, timeout_ms=_TIMEOUT_MS)
        answer: CreateTopicsResponse = await self._asker.ask(request, "CreateTopics", _CREATE_VERSION)
        hints = {topic.name: _config_hint(topic) for topic in wanted}
        for result in answer.topics:
            what = f"Topic {printable(result.name)} was not made"
            hint = hints[result.name] if result.error_code == ErrorCode.INVALID_CONFIG else ""
            self._check(result.error_code, result.error_message, what, hint)
        return [
            TopicDescription(
                name=result.name,
                topic_id=uuid_to_text(result.topic_id),
                partitions=result.num_partitions,
            )
            for result in answer.topics
        ]

    async def delete(self, name: str, by: str | None) -> None:
        """Deletes a topic. Raises Problem (no-such-topic, refused)."""
        states = [DeleteTopicState(name=name, topic_id=ZERO_ID)]
        request = DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)
        answer: DeleteTopicsResponse = await self._asker.ask(request, "DeleteTopics", _DELETE_VERSION)
        (result,) = answer.responses
        self._check(result.error_code, result.error_message, f"Topic {printable(name)} was not deleted")
        self._acts.note("topic", f"deleted {name}", by=by)

    @staticmethod
    def _check(code: int, message: str | None, what: str, hint: str = "") -> None:
        error = ErrorCode(code)
        if error is ErrorCode.NONE:
            return
        kind = _KINDS.get(error, ProblemKind.REFUSED)
        detail = f"{what}: {printable(message or error.message)}{hint}"
        raise Problem(kind, what, detail, {"error": error.name})


def _wanted(name: str, partitions: int | None, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=_DEFAULT if partitions is None else partitions,
        replication_factor=_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def _config_hint(topic: CreatableTopic) -> str:
    """Suggest the property that the first unknown one was meant to be; Kafka's own message does not."""
    known = [*TOPIC_CONFIG_KEYS, INTERNAL_SEGMENT_BYTES.name]
    unknown = next((config.name for config in topic.configs if config.name not in known), None)
    return "" if unknown is None else f" {suggest(unknown, known)}"


def _described(topic: Topic) -> TopicDescription:
    return TopicDescription(
        name=topic.name, topic_id=uuid_to_text(topic.topic_id), partitions=len(topic.partitions)
    )
