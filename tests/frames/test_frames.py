"""Frames between stock clients and a real broker: each decodes, and encodes to the same bytes.

They show facts that the message declarations lack: the header version of each API version, null versus empty
values, omitted tags, and the order of unordered fields.
"""

import pytest

from protocol import reference_codec
from protocol.apis import APIS, ApiKey
from protocol.codec import decode
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.framing import parse_request_header, response_body_position
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.frames.choice import choose
from tests.frames.recording import Exchange, read, request_again, response_again
from tests.interop.driver import CONSUMER_DRIVERS

EXCHANGES = read()
CLIENTS = ("java", "confluent", "franz_go", "kafka_python", "kafkajs", "aiokafka")
GROUP_LIFE = {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
}
"""What every client asks for that produces, reads, commits and leaves."""
ONLY_SAID_TO_BE_SERVED = {(ApiKey.PRODUCE, version) for version in range(3)}
"""Kafka advertises these and closes the connection."""
UNHEARD = {(key, 0) for key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)}
"""What no client says here: Kafka 4 has dropped version 0 of the APIs of ACLs. Independent codecs know it
(`tests/protocol`)."""
TRANSACTIONS = {
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
}
"""What a client asks for that commits records and offsets in a transaction."""
ADDS_NOTHING = {
    client: {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN} for client in ("java", "franz_go")
}
"""What clients leave to the broker that know transactions of the second version."""
ABOUT_TRANSACTIONS = {
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.WRITE_TXN_MARKERS,
}
"""What `kafka-transactions.sh` asks for."""
SPEAK_CONSUMER = {driver.name for driver in CONSUMER_DRIVERS}
APIS_AND_VERSIONS = sorted({(one.api.name, one.version) for one in EXCHANGES})


@pytest.mark.parametrize(("api", "version"), APIS_AND_VERSIONS, ids=lambda value: str(value))
def test_every_frame_encodes_to_the_same_bytes(api: str, version: int) -> None:
    exchanges = [one for one in EXCHANGES if (one.api.name, one.version) == (api, version)]
    assert [one for one in exchanges if not is_the_same_again(one)] == []


def is_the_same_again(exchange: Exchange) -> bool:
    """Return whether both frames survive decoding and encoding unchanged."""
    again = request_again(exchange), response_again(exchange)
    return again == (exchange.request, exchange.response)


@pytest.mark.parametrize("client", CLIENTS)
def test_both_codecs_read_the_same_in_every_frame_of_a_client(client: str) -> None:
    for _, api, version, request, response in (one for one in EXCHANGES if one.client == client):
        asked = parse_request_header(request).body_position
        assert reference_codec.decode(api.request, version, request[asked:]) == decode(
            api.request, version, request, asked
        )
        answered = response_body_position(api.key, version, response)
        assert reference_codec.decode(api.response, version, response[answered:]) == decode(
            api.response, version, response, answered
        )


def test_a_frame_that_would_be_written_otherwise_is_seen() -> None:
    (one, *_) = (one for one in EXCHANGES if one.api.key == ApiKey.HEARTBEAT and one.version == 4)
    *head, tags = one.request
    assert tags == 0
    with_a_tag = one._replace(request=bytes(head) + b"\x01\x07\x01z")
    assert is_the_same_again(one)
    assert not is_the_same_again(with_a_tag)


def test_every_version_that_is_served_is_there() -> None:
    there = {(exchange.api.key, exchange.version) for exchange in EXCHANGES}
    served = {
        (key, version)
        for key, api in APIS.items()
        for version in range(api.versions.first, api.versions.last + 1)
    }
    assert served - there == ONLY_SAID_TO_BE_SERVED | UNHEARD


@pytest.mark.parametrize("client", CLIENTS)
def test_the_life_of_a_group_is_there_from_every_client(client: str) -> None:
    there = {exchange.api.key for exchange in EXCHANGES if exchange.client == client}
    assert there >= GROUP_LIFE


def test_a_consumer_group_is_there_from_every_client_that_knows_them() -> None:
    beating = {one.client for one in EXCHANGES if one.api.key == ApiKey.CONSUMER_GROUP_HEARTBEAT}
    assert beating >= SPEAK_CONSUMER


@pytest.mark.parametrize("client", CLIENTS)
def test_a_transaction_is_there_from_every_client(client: str) -> None:
    there = {exchange.api.key for exchange in EXCHANGES if exchange.client == client}
    assert there >= TRANSACTIONS - ADDS_NOTHING.get(client, set())


def test_the_tools_for_transactions_and_consumer_groups_are_there() -> None:
    there = {exchange.api.key for exchange in EXCHANGES if exchange.client == "java"}
    assert there >= {*ABOUT_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_consumers_tell_each_other_encodes_to_the_same_bytes(client: str) -> None:
    requests = [
        decode(one.api.request, one.version, one.request, parse_request_header(one.request).body_position)
        for one in EXCHANGES
        if one.client == client
    ]
    told = [
        protocol.metadata
        for request in requests
        if isinstance(request, JoinGroupRequest)
        for protocol in request.protocols
    ]
    shared = [
        part.assignment
        for request in requests
        if isinstance(request, SyncGroupRequest)
        for part in request.assignments
        if part.assignment
    ]
    assert told
    assert shared
    for data in told:
        version = int.from_bytes(data[:2], "big")
        assert encode_subscription(decode(ConsumerProtocolSubscription, version, data, 2), version) == data
    for data in shared:
        version = int.from_bytes(data[:2], "big")
        assert encode_assignment(decode(ConsumerProtocolAssignment, version, data, 2), version) == data


def test_nothing_is_kept_that_adds_nothing() -> None:
    assert len(choose(EXCHANGES)) == len(EXCHANGES)
