"""The APIs that groupd advertises, compared with the ApiVersions response of Apache Kafka 4.4.0."""

from protocol.apis import APIS

KAFKA_4_4: dict[int, tuple[int, int]] = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2),
    40: (1, 2), 41: (1, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
    80: (0, 1), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1), 88: (0, 1), 89: (0, 1),
    90: (0, 1), 91: (0, 0), 92: (0, 0), 93: (0, 0), 94: (0, 0),
}  # fmt: skip

OTHER_GROUP_TYPES = {76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94}
DELEGATION_TOKENS = {38, 39, 40, 41}
CHANGING_QUOTAS = {49}
RAFT_AND_REPLICAS = {34, 55, 57, 64, 80, 81}

SERVED_FROM_LOWER = {2: 0, 8: 0, 9: 0, 19: 0, 20: 0, 23: 0, 29: 0, 30: 0, 31: 0, 32: 0, 35: 0}


def test_the_apis_that_kafka_has_and_groupd_lacks() -> None:
    missing = KAFKA_4_4.keys() - APIS.keys()
    groups = [
        OTHER_GROUP_TYPES,
        DELEGATION_TOKENS,
        CHANGING_QUOTAS,
        RAFT_AND_REPLICAS,
    ]
    assert missing == set().union(*groups)
    assert sum(map(len, groups)) == len(missing)


def test_no_api_is_served_that_kafka_lacks() -> None:
    assert APIS.keys() <= KAFKA_4_4.keys()


def test_the_versions_that_kafka_4_dropped_and_groupd_serves() -> None:
    served_from = {key: api.versions.first for key, api in APIS.items()}
    lower = {key: first for key, first in served_from.items() if first != KAFKA_4_4[key][0]}
    assert lower == SERVED_FROM_LOWER


def test_every_api_is_served_to_kafkas_newest_version() -> None:
    assert {key: api.versions.last for key, api in APIS.items()} == {key: KAFKA_4_4[key][1] for key in APIS}
