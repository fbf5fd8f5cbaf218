"""The table of served APIs, against the declarations and the newest Kafka."""

from pathlib import Path

import pytest
from kio.schema.index import api_key_map

import protocol.messages
from protocol.apis import APIS, Api, find_message_class
from protocol.schema import message_info

# The newest version of each API that a broker of Apache Kafka 4.4.0 advertises, and its first flexible one.
NEWEST = {
    0: (13, 9), 1: (18, 12), 2: (11, 6), 3: (13, 9), 8: (10, 8), 9: (10, 6), 10: (6, 3), 11: (9, 6), 12: (4, 4),
    13: (5, 4), 14: (5, 4), 15: (6, 5), 16: (5, 3), 17: (1, None), 18: (5, 3), 19: (7, 5), 20: (6, 4),
    21: (2, 2), 22: (5, 2), 23: (4, 4), 24: (5, 3), 25: (4, 3), 26: (5, 3), 27: (2, 1), 28: (6, 3), 29: (3, 2),
    30: (3, 2), 31: (3, 2), 32: (4, 4), 33: (2, 2), 35: (5, 2), 36: (2, 2), 37: (3, 2), 42: (3, 2), 43: (2, 2),
    44: (1, 1), 45: (1, 0), 46: (0, 0), 47: (0, None), 48: (1, 1), 50: (0, 0), 51: (0, 0), 60: (2, 0), 61: (0, 0),
    65: (0, 0), 66: (2, 0),
    68: (1, 0), 69: (1, 0), 74: (1, 0), 75: (0, 0),
}  # fmt: skip


def test_every_api_is_served_up_to_the_newest_version_of_kafka() -> None:
    assert {key: api.versions.last for key, api in APIS.items()} == {
        key: last for key, (last, _) in NEWEST.items()
    }


def test_every_api_is_served_from_its_lowest_version_but_fetch_and_the_markers_of_old_brokers() -> None:
    assert {key: api.versions.first for key, api in APIS.items() if api.versions.first} == {1: 4, 27: 1}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_request_and_response_are_declared_as_those_of_their_api(api: Api) -> None:
    for cls, role in ((api.request, "request"), (api.response, "response")):
        info = message_info(cls)
        assert (info.api_key, info.role) == (api.key, role)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_flexible_from_the_same_version_as_in_kafka(api: Api) -> None:
    flexible = [version for version in range(api.versions.last + 1) if version in api.flexible]
    assert (flexible[0] if flexible else None) == NEWEST[api.key][1]


def test_keys_and_names_are_kafkas() -> None:
    assert {key: api.key.name.lower() for key, api in APIS.items()} == {key: api_key_map[key] for key in APIS}


def test_every_declared_api_is_in_the_table() -> None:
    declared = {path.stem for path in Path(protocol.messages.__path__[0]).glob("[!_]*.py")}
    assert declared == {api.key.name.lower() for api in APIS.values()}


@pytest.mark.parametrize("name", ["", "JoinGroup", "JoinGroupRequestProtocol", "os", "AddRaftVoterRequest"])
def test_no_class_by_a_name_that_is_no_message(name: str) -> None:
    with pytest.raises(KeyError):
        find_message_class(name)
