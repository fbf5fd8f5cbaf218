"""In which versions of their schemas Kafka 4 writes values: the form that the content needs."""

from typing import Final

from protocol.kinds import ZERO_UUID
from protocol.records.group_metadata import GroupMetadataValue
from protocol.records.offset_commit import OffsetCommitValue

NO_EXPIRE_TIMESTAMP: Final = -1

GROUP_METADATA_VERSION: Final = 3
OFFSET_VERSION: Final = 3
TOPIC_ID_OFFSET_VERSION: Final = 4
"""The version of an offset's value that has the topic's id."""
EXPIRING_OFFSET_VERSION: Final = 1
"""The version of an offset's value that has an expire timestamp; it has neither leader epoch nor topic id."""


def offset_version(value: OffsetCommitValue) -> int:
    """Of an offset."""
    if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
        return EXPIRING_OFFSET_VERSION
    return OFFSET_VERSION if value.topic_id == ZERO_UUID else TOPIC_ID_OFFSET_VERSION


def group_metadata_version(_: GroupMetadataValue) -> int:
    """Of a classic group."""
    return GROUP_METADATA_VERSION


def first_version(_: object) -> int:
    """Of a record that has been written in one version so far."""
    return 0
