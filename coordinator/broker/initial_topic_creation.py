"""Creates the topics that variables of Docker images declare, as a CreateTopics request would."""

import logging
from collections.abc import Sequence
from typing import Final

from coordinator.broker.topic_log_lines import FEWER_REPLICAS
from coordinator.config.initial_topics import InitialTopic
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.outcome import Context
from coordinator.core.time_budget import run_in_one_step
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer, ReplicationFactorRefused, TopicChange
from coordinator.topics.long_work import LongWork, OneStepChangeWork, reject_transaction
from coordinator.topics.topic_creation import answer_create_topics
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_LOG: Final = logging.getLogger("TopicManager")

_CREATOR: Final = Context(waiter=0, api_version=7, client_id="", client_host="")
"""The context of these requests: the server itself instead of a client."""
_TIMEOUT_MS: Final = 60_000
_ANY: Final = -1


def create_initial_topics(plane: DataPlane, topics: Sequence[InitialTopic]) -> Sequence[TopicChange]:
    """Create the missing topics in one step, and log each refusal. Return the changes."""
    work = OneStepChangeWork(clock.now(), reject_transaction)
    others = run_in_one_step(create_missing_topics(work, plane, topics))
    return [*work.changes, *others]


async def create_missing_topics(
    work: LongWork, plane: DataPlane, topics: Sequence[InitialTopic]
) -> Sequence[TopicChange]:
    """Create the missing topics while other work runs, and log each refusal. The work publishes the created topics.

    Return the other changes.
    """
    answer = await answer_create_topics(plane, _create_request(topics), _CREATOR, work)
    return _log_refusals(topics, answer, plane)


def _create_request(topics: Sequence[InitialTopic]) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replicas,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=_TIMEOUT_MS,
    )


def _log_refusals(topics: Sequence[InitialTopic], answer: Answer, plane: DataPlane) -> Sequence[TopicChange]:
    """Log each topic that differs from its variable. An existing topic stays unchanged, as with kafka-topics.sh
    --if-not-exists. Return the changes for the other log lines and for the server.
    """
    assert isinstance(answer.response, CreateTopicsResponse)
    topics_by_name = {topic.name: topic for topic in topics}
    for result in answer.response.topics:
        topic, error = topics_by_name[result.name], ErrorCode(result.error_code)
        if error is ErrorCode.TOPIC_ALREADY_EXISTS:
            _log_difference(topic, plane.catalogue)
        elif error is not ErrorCode.NONE:
            remedy = f" {FEWER_REPLICAS}" if error is ErrorCode.INVALID_REPLICATION_FACTOR else ""
            _LOG.warning(
                "%s: topic %s is not created: %s%s",
                topic.variable,
                printable(topic.name),
                printable(result.error_message or error.message),
                remedy,
            )
    return [change for change in answer.changes if not isinstance(change, ReplicationFactorRefused)]


def _log_difference(topic: InitialTopic, catalogue: Catalogue) -> None:
    found = catalogue.find_topic(topic.name)
    if found is None or topic.partitions in (_ANY, len(found.partitions)):
        return
    _LOG.warning(
        "%s: topic %s exists with %d partitions, not %d: delete it, or add partitions with kafka-topics --alter",
        topic.variable,
        printable(topic.name),
        len(found.partitions),
        topic.partitions,
    )
