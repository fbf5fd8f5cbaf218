"""What clients ask for and is not there, as it is told to people."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import ZERO_ID

MOST_TOLD: Final = 500
"""How many of one request are looked at for a line; no more than those would be told apart."""


class WhyMissing(Enum):
    """Why a topic or partition that was asked for is not there, as a clause for people."""

    UNKNOWN = "there is no such topic"
    NO_PARTITION = "the topic has fewer partitions"
    AUTO_CREATION_OFF = (
        "there is no such topic, and auto.create.topics.enable=false keeps it from being created"
    )
    NOT_ALLOWED = (
        "there is no such topic, and the client does not let it be created (allow.auto.create.topics)"
    )
    ILLEGAL_NAME = "no topic can have such a name (1 to 249 ASCII letters, digits, '.', '_' and '-')"
    COLLIDES = "it is not created because another topic differs from it only in '.' and '_'"
    INTERNAL = "it would be a broker's own topic, and is not here"


@dataclass(frozen=True, slots=True)
class TopicMissing:
    """A client asked for a topic that is not there, by name or (`topic_id` is not empty) by id, or for a
    partition that the topic does not have."""

    name: str
    why: WhyMissing
    partition: int | None = None
    topic_id: bytes = b""


def missing_partition(
    catalogue: Catalogue, name: str, number: int, topic_id: bytes = ZERO_ID
) -> TopicMissing:
    """A partition that is not there: its topic is not, which may have been asked for by id, or it has fewer."""
    if topic_id != ZERO_ID and catalogue.get_by_id(topic_id) is None:
        return TopicMissing("", WhyMissing.UNKNOWN, topic_id=topic_id)
    if catalogue.get(name) is None:
        return TopicMissing(name, WhyMissing.UNKNOWN)
    return TopicMissing(name, WhyMissing.NO_PARTITION, number)
