"""The table of APIs that groupd serves and advertises in ApiVersions, and ranges of versions in Kafka's
notation.

Every API is served from its first version to the newest of Apache Kafka 4.4, so that clients from 0.11 on
work. The exceptions are message formats before v2: Fetch begins at v4, and Produce below v3 is advertised and
refused, as in Kafka 4, for librdkafka (KAFKA-18659). WriteTxnMarkers v0, which only brokers sent, is not
served.

The request and response classes of an API are imported at its first use, because a daemon at rest needs few.
"""

from enum import IntEnum
from importlib import import_module
from typing import Any, Final

from msgspec import Struct


class VersionRange(Struct, frozen=True):
    """The versions from `first` to `last`, both included. The range is empty if last < first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @staticmethod
    def parse(text: str) -> "VersionRange":
        """Parse Kafka's notation: "3" is one version, "0-9" a range, "6+" all versions from 6 on, "none" no
        version."""
        if text == "none":
            return VersionRange(0, -1)
        if text.endswith("+"):
            return VersionRange(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return VersionRange(int(first), int(last or first))


ALL_VERSIONS: Final = VersionRange(0, 32767)


class ApiKey(IntEnum):
    """The numbers of the APIs in request headers."""

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


class Api(Struct, frozen=True):
    """One API: its key, Kafka's name, the served versions, and the versions with flexible encoding."""

    key: ApiKey
    name: str
    versions: VersionRange
    flexible: VersionRange
    max_elements: int
    """The maximum number of elements in all arrays of one request together. An element may have a single byte
    in the request, and takes a hundred times that memory until the request is answered."""

    @property
    def request(self) -> type[Any]:
        """The message class of the request."""
        return find_message_class(f"{self.name}Request")

    @property
    def response(self) -> type[Any]:
        """The message class of the response."""
        return find_message_class(f"{self.name}Response")


NO_ELEMENTS: Final = 0
"""The limit of messages without an array in any version."""
MAX_KINDS: Final = 2_000
"""The limit of states, types and assignors. A few of each exist, and this many are harmless."""
MAX_MEMBERS: Final = 20_000
"""The limit of the members of one group."""
MAX_NAMES: Final = 50_000
"""The limit of groups or topics: admin clients name all of them in one request."""
MAX_PARTITIONS: Final = 130_000
"""The limit of partitions, enough for 20,000 topics with 100,000 partitions. The subscription of a consumer
group's member has a lower limit: `coordinator/group/consumer/heartbeat_validation.py`."""
MAX_RULES: Final = 10_000
"""The limit of ACLs or credentials that one request adds or removes."""


def _declare_api(key: ApiKey, versions: str, flexible: str, most_elements: int) -> tuple[int, Api]:
    name = "".join(word.capitalize() for word in key.name.split("_"))
    return int(key), Api(key, name, VersionRange.parse(versions), VersionRange.parse(flexible), most_elements)


APIS: Final[dict[int, Api]] = dict(
    [
        _declare_api(ApiKey.PRODUCE, "0-13", "9+", MAX_PARTITIONS),
        _declare_api(ApiKey.FETCH, "4-18", "12+", MAX_PARTITIONS),
        _declare_api(ApiKey.LIST_OFFSETS, "0-11", "6+", MAX_PARTITIONS),
        _declare_api(ApiKey.METADATA, "0-13", "9+", MAX_NAMES),
        _declare_api(ApiKey.OFFSET_COMMIT, "0-10", "8+", MAX_PARTITIONS),
        _declare_api(ApiKey.OFFSET_FETCH, "0-10", "6+", MAX_PARTITIONS),
        _declare_api(ApiKey.FIND_COORDINATOR, "0-6", "3+", MAX_NAMES),
        _declare_api(ApiKey.JOIN_GROUP, "0-9", "6+", MAX_KINDS),
        _declare_api(ApiKey.HEARTBEAT, "0-4", "4+", NO_ELEMENTS),
        _declare_api(ApiKey.LEAVE_GROUP, "0-5", "4+", MAX_MEMBERS),
        _declare_api(ApiKey.SYNC_GROUP, "0-5", "4+", MAX_MEMBERS),
        _declare_api(ApiKey.DESCRIBE_GROUPS, "0-6", "5+", MAX_NAMES),
        _declare_api(ApiKey.LIST_GROUPS, "0-5", "3+", MAX_KINDS),
        _declare_api(ApiKey.SASL_HANDSHAKE, "0-1", "none", NO_ELEMENTS),
        _declare_api(ApiKey.API_VERSIONS, "0-5", "3+", NO_ELEMENTS),
        _declare_api(ApiKey.CREATE_TOPICS, "0-7", "5+", MAX_PARTITIONS),
        _declare_api(ApiKey.DELETE_TOPICS, "0-6", "4+", MAX_NAMES),
        _declare_api(ApiKey.DELETE_RECORDS, "0-2", "2+", MAX_PARTITIONS),
        _declare_api(ApiKey.INIT_PRODUCER_ID, "0-5", "2+", NO_ELEMENTS),
        _declare_api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "0-4", "4+", MAX_PARTITIONS),
        _declare_api(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", "3+", MAX_PARTITIONS),
        _declare_api(ApiKey.ADD_OFFSETS_TO_TXN, "0-4", "3+", NO_ELEMENTS),
        _declare_api(ApiKey.END_TXN, "0-5", "3+", NO_ELEMENTS),
        _declare_api(ApiKey.WRITE_TXN_MARKERS, "1-2", "1+", MAX_PARTITIONS),
        _declare_api(ApiKey.TXN_OFFSET_COMMIT, "0-6", "3+", MAX_PARTITIONS),
        _declare_api(ApiKey.DESCRIBE_ACLS, "0-3", "2+", NO_ELEMENTS),
        _declare_api(ApiKey.CREATE_ACLS, "0-3", "2+", MAX_RULES),
        _declare_api(ApiKey.DELETE_ACLS, "0-3", "2+", MAX_RULES),
        _declare_api(ApiKey.DESCRIBE_CONFIGS, "0-4", "4+", MAX_PARTITIONS),
        _declare_api(ApiKey.ALTER_CONFIGS, "0-2", "2+", MAX_PARTITIONS),
        _declare_api(ApiKey.DESCRIBE_LOG_DIRS, "0-5", "2+", MAX_PARTITIONS),
        _declare_api(ApiKey.SASL_AUTHENTICATE, "0-2", "2+", NO_ELEMENTS),
        _declare_api(ApiKey.CREATE_PARTITIONS, "0-3", "2+", MAX_PARTITIONS),
        _declare_api(ApiKey.DELETE_GROUPS, "0-3", "2+", MAX_NAMES),
        _declare_api(ApiKey.ELECT_LEADERS, "0-2", "2+", MAX_PARTITIONS),
        _declare_api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", "1+", MAX_PARTITIONS),
        _declare_api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0-1", "0+", MAX_PARTITIONS),
        _declare_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", "0+", MAX_PARTITIONS),
        _declare_api(ApiKey.OFFSET_DELETE, "0", "none", MAX_PARTITIONS),
        _declare_api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "0-1", "1+", MAX_KINDS),
        _declare_api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "0", "0+", MAX_RULES),
        _declare_api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "0", "0+", MAX_RULES),
        _declare_api(ApiKey.DESCRIBE_CLUSTER, "0-2", "0+", NO_ELEMENTS),
        _declare_api(ApiKey.DESCRIBE_PRODUCERS, "0", "0+", MAX_PARTITIONS),
        _declare_api(ApiKey.DESCRIBE_TRANSACTIONS, "0", "0+", MAX_NAMES),
        _declare_api(ApiKey.LIST_TRANSACTIONS, "0-2", "0+", MAX_KINDS),
        _declare_api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "0-1", "0+", MAX_PARTITIONS),
        _declare_api(ApiKey.CONSUMER_GROUP_DESCRIBE, "0-1", "0+", MAX_NAMES),
        _declare_api(ApiKey.LIST_CONFIG_RESOURCES, "0-1", "0+", MAX_KINDS),
        _declare_api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", "0+", MAX_NAMES),
    ]
)


def find_message_class(name: str) -> type[Any]:
    """Return the class of a request or response by its name ("JoinGroupRequest"). Raises KeyError for an
    unknown name."""
    for api in APIS.values():
        if name in (f"{api.name}Request", f"{api.name}Response"):
            module = import_module(f"{__package__}.messages.{api.key.name.lower()}")
            cls: type[Any] = getattr(module, name)
            return cls
    raise KeyError(name)
