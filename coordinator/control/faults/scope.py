"""What the requests of each API carry: whatever else a rule asks of them can never fit, which is said at once."""

from collections.abc import Mapping
from typing import Final

from protocol.apis import APIS, ApiKey

GROUP_OF_FIND: Final = 0
"""The key type of a group in FindCoordinator."""

API_BY_NAME: Final[Mapping[str, int]] = {api.name: key for key, api in APIS.items()}

OF_ONE_GROUP: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
    }
)
OF_GROUPS: Final = OF_ONE_GROUP | {
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DELETE_GROUPS,
}
OF_A_MEMBER: Final = OF_ONE_GROUP - {ApiKey.OFFSET_DELETE}
WITH_TOPICS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
    }
)
WRITING: Final = OF_ONE_GROUP | {ApiKey.DELETE_GROUPS}
"""Of which records of groups may come."""

CARRIED_BY: Final[Mapping[str, frozenset[ApiKey]]] = {
    "group": OF_GROUPS,
    "state": OF_GROUPS,
    "generation": OF_GROUPS,
    "members": OF_GROUPS,
    "topic": WITH_TOPICS,
    "member_id": OF_A_MEMBER,
    "group_instance_id": OF_A_MEMBER,
    "role": OF_A_MEMBER,
    "first_join": frozenset({ApiKey.JOIN_GROUP}),
}
"""By the field of a match. What is not here every request has."""
WITH_ERRORS: Final = OF_GROUPS | {ApiKey.LIST_GROUPS}
"""Where a fault can put an error in the answer."""
WITH_PARTITIONS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE})
"""Where it can be that of some partitions."""
WITH_EMPTY_SUCCESS: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT})
"""Whose answer that all is well says nothing else, so that NONE can be put where it is not so."""
