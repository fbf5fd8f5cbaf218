"""The table of the APIs that groupd serves: what `ApiVersions` advertises, and nothing else.

Every API is served from the lowest version it ever had to the newest of Apache Kafka 4.4, so that clients
from 0.11 on work; only message formats before v2 are not: Fetch begins at v4, and Produce below v3 is
advertised and refused, as Kafka 4 does for the sake of librdkafka (KAFKA-18659). Of WriteTxnMarkers, which only
brokers sent then, v0 is not served.

The request and response classes are imported when an API is first asked for: a daemon at rest needs few.
"""

from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any, Final

from protocol.versions import VersionRange


class ApiKey(IntEnum):
    """The number of an API on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, Kafka's name for it, the versions served and those with flexible encoding."""

    key: ApiKey
    name: str
    versions: VersionRange
    flexible: VersionRange
    most_elements: int
    """Of all arrays of one request together. One may take a single byte of the request, and a hundred times that of
    memory until it is answered."""

    @property
    def request(self) -> type[Any]:
        """The declared request."""
        return message_class(f"{self.name}Request")

    @property
    def response(self) -> type[Any]:
        """The declared response."""
        return message_class(f"{self.name}Response")


NOTHING: Final = 0
"""What has no array in any version."""
KINDS: Final = 2_000
"""Of states, types, assignors: there are a handful of each, and so many are harmless."""
MEMBERS: Final = 20_000
"""Of one group."""
NAMES: Final = 50_000
"""Of groups or topics: admin clients ask for all that there are in one request."""
PARTITIONS: Final = 130_000
"""Of at least 20,000 topics with 100,000 partitions. The names that a member of a consumer group subscribes to have
a lower bound of their own: `coordinator/group/consumer/checks.py`."""
RULES: Final = 10_000
"""Of who may do what: what one request may add or take away."""


def _api(key: ApiKey, versions: str, flexible: str, most_elements: int) -> tuple[int, Api]:
    name = "".join(word.capitalize() for word in key.name.split("_"))
    return int(key), Api(key, name, VersionRange.parse(versions), VersionRange.parse(flexible), most_elements)


APIS: Final[dict[int, Api]] = dict(
    [
        _api(ApiKey.PRODUCE, "0-13", "9+", PARTITIONS),
        _api(ApiKey.FETCH, "4-18", "12+", PARTITIONS),
        _api(ApiKey.LIST_OFFSETS, "0-11", "6+", PARTITIONS),
        _api(ApiKey.METADATA, "0-13", "9+", NAMES),
        _api(ApiKey.OFFSET_COMMIT, "0-10", "8+", PARTITIONS),
        _api(ApiKey.OFFSET_FETCH, "0-10", "6+", PARTITIONS),
        _api(ApiKey.FIND_COORDINATOR, "0-6", "3+", NAMES),
        _api(ApiKey.JOIN_GROUP, "0-9", "6+", KINDS),
        _api(ApiKey.HEARTBEAT, "0-4", "4+", NOTHING),
        _api(ApiKey.LEAVE_GROUP, "0-5", "4+", MEMBERS),
        _api(ApiKey.SYNC_GROUP, "0-5", "4+", MEMBERS),
        _api(ApiKey.DESCRIBE_GROUPS, "0-6", "5+", NAMES),
        _api(ApiKey.LIST_GROUPS, "0-5", "3+", KINDS),
        _api(ApiKey.SASL_HANDSHAKE, "0-1", "none", NOTHING),
        _api(ApiKey.API_VERSIONS, "0-5", "3+", NOTHING),
        _api(ApiKey.CREATE_TOPICS, "0-7", "5+", PARTITIONS),
        _api(ApiKey.DELETE_TOPICS, "0-6", "4+", NAMES),
        _api(ApiKey.DELETE_RECORDS, "0-2", "2+", PARTITIONS),
        _api(ApiKey.INIT_PRODUCER_ID, "0-5", "2+", NOTHING),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "0-4", "4+", PARTITIONS),
        _api(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", "3+", PARTITIONS),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, "0-4", "3+", NOTHING),
        _api(ApiKey.END_TXN, "0-5", "3+", NOTHING),
        _api(ApiKey.WRITE_TXN_MARKERS, "1-2", "1+", PARTITIONS),
        _api(ApiKey.TXN_OFFSET_COMMIT, "0-6", "3+", PARTITIONS),
        _api(ApiKey.DESCRIBE_ACLS, "0-3", "2+", NOTHING),
        _api(ApiKey.CREATE_ACLS, "0-3", "2+", RULES),
        _api(ApiKey.DELETE_ACLS, "0-3", "2+", RULES),
        _api(ApiKey.DESCRIBE_CONFIGS, "0-4", "4+", PARTITIONS),
        _api(ApiKey.ALTER_CONFIGS, "0-2", "2+", PARTITIONS),
        _api(ApiKey.DESCRIBE_LOG_DIRS, "0-5", "2+", PARTITIONS),
        _api(ApiKey.SASL_AUTHENTICATE, "0-2", "2+", NOTHING),
        _api(ApiKey.CREATE_PARTITIONS, "0-3", "2+", PARTITIONS),
        _api(ApiKey.DELETE_GROUPS, "0-3", "2+", NAMES),
        _api(ApiKey.ELECT_LEADERS, "0-2", "2+", PARTITIONS),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", "1+", PARTITIONS),
        _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0-1", "0+", PARTITIONS),
        _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", "0+", PARTITIONS),
        _api(ApiKey.OFFSET_DELETE, "0", "none", PARTITIONS),
        _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "0-1", "1+", KINDS),
        _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "0", "0+", RULES),
        _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "0", "0+", RULES),
        _api(ApiKey.DESCRIBE_CLUSTER, "0-2", "0+", NOTHING),
        _api(ApiKey.DESCRIBE_PRODUCERS, "0", "0+", PARTITIONS),
        _api(ApiKey.DESCRIBE_TRANSACTIONS, "0", "0+", NAMES),
        _api(ApiKey.LIST_TRANSACTIONS, "0-2", "0+", KINDS),
        _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "0-1", "0+", PARTITIONS),
        _api(ApiKey.CONSUMER_GROUP_DESCRIBE, "0-1", "0+", NAMES),
        _api(ApiKey.LIST_CONFIG_RESOURCES, "0-1", "0+", KINDS),
        _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", "0+", NAMES),
    ]
)


def message_class(name: str) -> type[Any]:
    """The class of a request or response by its name ("JoinGroupRequest"); KeyError when there is none."""
    for api in APIS.values():
        if name in (f"{api.name}Request", f"{api.name}Response"):
            module = import_module(f"protocol.messages.{api.key.name.lower()}")
            cls: type[Any] = getattr(module, name)
            return cls
    raise KeyError(name)
