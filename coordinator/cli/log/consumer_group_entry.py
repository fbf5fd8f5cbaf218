"""Records of consumer groups (KIP-848) with their meaning, as data that JSON can keep: fields have Kafka's names.

Source: Kafka's `ConsumerGroup*Key` and `ConsumerGroup*Value`; `MemberState` for the states of members.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from protocol.records.consumer_group import ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue
from storage.uuid_text import uuid_to_text

STATES: Final = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN"}


def key_fields(key: Any) -> dict[str, Any]:
    """The group, under the name that it has in all keys, and the member or the expression."""
    fields = asdict(key)
    return {"group": fields.pop("group_id")} | fields


def value_fields(value: Any, subscription: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    """All that a value says; `subscription` tells what a member of the classic protocol subscribed to."""

    def plain(part: Any) -> Any:
        if isinstance(part, ClassicProtocol):
            return {"name": part.name, "subscription": subscription(part.metadata)}
        if isinstance(part, Struct):
            return {name: plain(field) for name, field in asdict(part).items()}
        if isinstance(part, list):
            return [plain(each) for each in part]
        return uuid_to_text(part) if isinstance(part, bytes) else part

    fields: dict[str, Any] = plain(value)
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        fields["state_name"] = STATES.get(value.state, "unknown")
    return fields


def topics_of(value: dict[str, Any]) -> list[str]:
    """The topics that a value names; assignments have the ids of theirs only."""
    matched = [topic if isinstance(topic, str) else topic["topic_name"] for topic in value.get("topics", ())]
    return [*value.get("subscribed_topic_names", ()), *matched]
