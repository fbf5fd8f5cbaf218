"""The types of groups. Source: Kafka's `Group.GroupType`."""

from enum import StrEnum


class GroupType(StrEnum):
    """A type of group; its value is the name that ListGroups gives it. Only classic groups are made so far."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
