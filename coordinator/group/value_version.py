"""In which versions of their schemas the values of groups are written."""

from typing import Final

CURRENT_VALUE_VERSION: Final = 3
"""The version in which Kafka 4 writes the values of group metadata, and of offset commits for topics whose
id is not known."""

TOPIC_ID_VALUE_VERSION: Final = 4
"""The version of an offset commit's value that has the topic's id."""

EXPIRING_OFFSET_VALUE_VERSION: Final = 1
"""The version of an offset commit's value that has an explicit expire timestamp."""
