"""What becomes of a topic, or of a group's configs, that two brokers change at one time: what each has changed.

A broker knows what its own catalogue said before, what it says now, and what the key says, which another broker may
have changed since.
"""

from collections.abc import Mapping
from typing import Any

from coordinator.cluster.conflict import Exists, Refused


def merged_topic(
    name: str,
    before: Mapping[str, Any] | None,
    said: Mapping[str, Any],
    there: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The fields that the key is to have: id, partitions, configs; of a new topic all that this broker says. In:
    what it said before, if it had the topic; what it says now; what is there, if something is. Raises Refused,
    Exists."""
    if there is None:
        if before is not None:
            raise Refused(f"topic {name} was deleted by another broker")
        return dict(said)
    if there["topic_id"] != said["topic_id"]:
        raise Exists(f"topic {name} was made by another broker")
    base: Mapping[str, Any] = before or {"partitions": 0, "configs": {}}
    has_grown = said["partitions"] > base["partitions"]
    partitions = max(there["partitions"], said["partitions"]) if has_grown else there["partitions"]
    configs = merged_configs(base["configs"], said["configs"], there["configs"])
    return {"topic_id": said["topic_id"], "partitions": partitions, "configs": configs}


def merged_configs(
    before: Mapping[str, str], said: Mapping[str, str], there: Mapping[str, str]
) -> dict[str, str]:
    """What is there, with what was set and removed between `before` and `said`."""
    kept = {key: value for key, value in there.items() if key in said or key not in before}
    return kept | {key: value for key, value in said.items() if before.get(key) != value}
