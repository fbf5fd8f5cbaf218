"""Batches of transactions, from the request to the log."""

from collections.abc import Callable

import pytest

from coordinator.config.properties import Config
from coordinator.core.outcome import Context
from coordinator.core.response_status import CLOSE_CONNECTION, NO_RESPONSE
from coordinator.topics.data_plane_answer import Answer
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from storage.producers.producer_table import MAX_SEQUENCE
from storage.topic_partition import TopicPartition
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import NODE, Broker, agrees, batch, produce_request, sequenced
from tests.topics.test_produce import changed, stored
from tests.topics.transacting import TV1, Says, abort, commit, end, transactional, write

ABORTABLE_SINCE, ADDS_SINCE = 11, 12


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.create("orders", 3)


def request_of(*batches: bytes, transactional_id: str | None = "t", acks: int = -1) -> ProduceRequest:
    """One batch for each partition."""
    request = produce_request("orders", batches[0], 0, acks)
    for number, data in enumerate(batches[1:], 1):
        request.topic_data += produce_request("orders", data, number).topic_data
    request.transactional_id = transactional_id
    return request


def codes(broker: Broker, request: ProduceRequest, version: int = TV1) -> list[int]:
    response = broker.ask(request, ProduceResponse, version)
    return [part.error_code for topic in response.responses for part in topic.partition_responses]


# What a request says


def test_a_transaction_without_an_id_is_nobodys(broker: Broker) -> None:
    request = request_of(transactional(7, 0, 0), batch(), transactional_id=None)
    request.topic_data += produce_request("gone", batch()).topic_data
    assert set(codes(broker, request)) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert stored(broker, partition=1) == []
    assert broker.questions == []
    request.acks = 0
    assert broker.send(request, TV1).response is CLOSE_CONNECTION


@pytest.mark.parametrize("other", [(8, 0), (7, 1)])
def test_a_request_is_of_one_producer(broker: Broker, other: tuple[int, int]) -> None:
    request = request_of(transactional(7, 0, 0), transactional(*other, 0), batch())
    assert codes(broker, request) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3
    assert stored(broker, partition=2) == []


def test_plain_batches_of_the_same_request_go_their_way(broker: Broker) -> None:
    broker.coordinator = Says(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    request = request_of(transactional(7, 0, 0), sequenced(8, 0, 5), batch())
    assert codes(broker, request) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.NONE, ErrorCode.NONE]


def test_partitions_that_do_not_exist_are_not_asked_about(broker: Broker) -> None:
    request = request_of(transactional(7, 0, 0))
    request.topic_data += produce_request("gone", transactional(7, 0, 0)).topic_data
    assert codes(broker, request) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.questions[0].partitions == [TopicPartition("orders", 0)]


# --- requests to the coordinator


@pytest.mark.parametrize(
    ("version", "adds", "is_abortable"),
    [(3, False, False), (10, False, False), (11, False, True), (12, True, True)],
)
def test_what_is_asked_and_when(broker: Broker, version: int, adds: bool, is_abortable: bool) -> None:
    request = request_of(*[transactional(7, 0, 0) for _ in range(3)])
    assert set(codes(broker, request, version)) == {ErrorCode.NONE}
    partitions = [TopicPartition("orders", number) for number in range(3)]
    assert broker.questions == [AddOrVerifyRequest("t", 7, 0, partitions, adds, is_abortable)]


@pytest.mark.parametrize("version", [10, 11, 12])
def test_where_the_transaction_is_open_nobody_is_asked(broker: Broker, version: int) -> None:
    write(broker, version=version)
    request = request_of(transactional(7, 0, 1), transactional(7, 0, 0), transactional_id="another")
    assert codes(broker, request, version) == [ErrorCode.NONE, ErrorCode.NONE]
    assert [question.partitions for question in broker.questions[1:]] == [[TopicPartition("orders", 1)]]
    broker.coordinator = Says(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert write(broker, sequence=2, version=version).error_code == ErrorCode.NONE


def test_after_the_end_the_next_transaction_is_asked_about(broker: Broker) -> None:
    write(broker)
    commit(broker)
    broker.coordinator = Says(ErrorCode.TRANSACTION_ABORTABLE)
    assert write(broker, sequence=1).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert len(broker.questions) == 2


ANSWERS: list[tuple[ErrorCode, ...]] = [
    # The coordinator's error, and the errors of produce versions 10, 11 and 12.
    (ErrorCode.PRODUCER_FENCED, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
    (
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
    (ErrorCode.INVALID_TXN_STATE, *[ErrorCode.INVALID_TXN_STATE] * 3),
    *[
        (code, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        for code in (
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        )
    ],
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ),
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3),
]


@pytest.mark.parametrize("at", [10, 11, 12])
@pytest.mark.parametrize("answers", ANSWERS, ids=lambda answers: answers[0].name)
def test_what_a_producer_is_told_of_the_answer(
    broker: Broker, answers: tuple[ErrorCode, ...], at: int
) -> None:
    broker.coordinator = Says(answers[0])
    refused = write(broker, version=at)
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (answers[at - 9], -1, -1)
    assert stored(broker) == []
    broker.coordinator = agrees
    assert write(broker, version=at).error_code == ErrorCode.NONE


def test_a_refused_partition_does_not_keep_the_others_from_being_written(broker: Broker) -> None:
    def only_the_first(question: AddOrVerifyRequest) -> AddOrVerifyResult:
        refused = dict.fromkeys(question.partitions, ErrorCode.TRANSACTION_ABORTABLE)
        return refused | {question.partitions[0]: ErrorCode.NONE}

    broker.coordinator = only_the_first
    request = request_of(transactional(7, 0, 0), transactional(7, 0, 0))
    assert codes(broker, request) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert (len(stored(broker)), stored(broker, partition=1)) == (1, [])


def test_an_answer_is_not_waited_for_with_acks_0(broker: Broker) -> None:
    request = request_of(transactional(7, 0, 0), acks=0)
    assert broker.send(request, TV1).response is NO_RESPONSE
    assert len(stored(broker)) == 1
    commit(broker)
    broker.coordinator = Says(ErrorCode.PRODUCER_FENCED)
    request = request_of(transactional(7, 0, 1), acks=0)
    assert broker.send(request, TV1).response is CLOSE_CONNECTION


@pytest.mark.parametrize(("version", "asked"), [(11, 0), (12, 1)])
def test_without_verification_partitions_are_added_all_the_same(
    tmp_path: object, version: int, asked: int
) -> None:
    broker = Broker(f"{tmp_path}/unverified", Config(transaction_partition_verification_enable=False))
    broker.create("orders")
    assert write(broker, version=version).error_code == ErrorCode.NONE
    assert len(broker.questions) == asked
    broker.stop()


# --- events during the verification


def meanwhile(broker: Broker, happens: Callable[[], object]) -> None:
    """Something that happens before the next answer of the coordinator is there."""

    def coordinator(question: AddOrVerifyRequest) -> AddOrVerifyResult:
        broker.coordinator = agrees
        happens()
        return agrees(question)

    broker.coordinator = coordinator


def test_a_transaction_that_is_ended_meanwhile_does_not_begin_again(broker: Broker) -> None:
    meanwhile(broker, lambda: abort(broker))
    assert write(broker).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_end_of_the_transaction_before_does_not_touch_the_next_one(broker: Broker) -> None:
    """Its marker has the epoch that the next one begins with."""
    write(broker, version=12)
    meanwhile(broker, lambda: commit(broker, epoch=1, level=2))
    assert write(broker, epoch=1, version=12).error_code == ErrorCode.NONE


def test_a_producer_that_is_fenced_meanwhile_is_told(broker: Broker) -> None:
    meanwhile(broker, lambda: abort(broker, epoch=1))
    assert write(broker).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_topic_that_is_deleted_meanwhile_is_gone(broker: Broker) -> None:
    meanwhile(broker, lambda: broker.send(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3))
    assert write(broker).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_comes_back_meanwhile_is_another_one(broker: Broker) -> None:
    def replace() -> None:
        broker.send(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
        broker.create("orders")

    meanwhile(broker, replace)
    assert write(broker).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert write(broker).error_code == ErrorCode.NONE


def test_a_log_that_is_opened_anew_meanwhile_is_written_by_the_next_try() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")

    def fail() -> None:
        files.fail("write", torn_bytes=10)
        files.fail("truncate")
        assert broker.produce("orders", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    meanwhile(broker, fail)
    assert write(broker).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert write(broker).error_code == ErrorCode.NONE
    assert len(broker.questions) == 2


def test_a_second_batch_that_waits_as_well_is_not_written_before_the_first(broker: Broker) -> None:
    """Producers send several batches before the first one is answered."""
    sent: list[int] = []
    meanwhile(broker, lambda: sent.append(write(broker, sequence=1).error_code))
    assert write(broker, sequence=0).error_code == ErrorCode.NONE
    assert sent == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert write(broker, sequence=1).error_code == ErrorCode.NONE


# The place of a batch among those of its producer


def test_a_batch_sent_twice_is_stored_once_while_the_transaction_is_open(broker: Broker) -> None:
    write(broker, count=2)
    again = write(broker, count=2)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert len(stored(broker)) == 2


def test_after_the_end_the_coordinator_comes_before_the_duplicate(broker: Broker) -> None:
    write(broker)
    commit(broker)
    broker.coordinator = Says(ErrorCode.TRANSACTION_ABORTABLE)
    assert write(broker, version=10).error_code == ErrorCode.INVALID_TXN_STATE
    assert write(broker, version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE
    broker.coordinator = agrees
    again = write(broker)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)


def test_after_the_epoch_has_risen_a_duplicate_is_of_a_fenced_producer(broker: Broker) -> None:
    write(broker, version=12)
    commit(broker, epoch=1, level=2)
    questions = len(broker.questions)
    assert write(broker, version=12).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(broker.questions) == questions


@pytest.mark.parametrize(
    ("version", "sequence", "code"),
    [
        (11, 0, ErrorCode.NONE),
        (11, 5, ErrorCode.NONE),
        (12, 0, ErrorCode.NONE),
        (12, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_where_a_producer_that_is_not_known_may_begin(
    broker: Broker, version: int, sequence: int, code: ErrorCode
) -> None:
    assert write(broker, sequence=sequence, version=version).error_code == code


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        (1, 0, ErrorCode.NONE),
        (1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_after_a_marker_of_a_new_epoch(broker: Broker, epoch: int, sequence: int, code: ErrorCode) -> None:
    write(broker, count=2, version=12)
    commit(broker, epoch=1, level=2)
    assert write(broker, epoch=epoch, sequence=sequence, version=12).error_code == code


def test_after_a_marker_of_the_same_epoch_sequences_go_on(broker: Broker) -> None:
    write(broker, count=2)
    commit(broker)
    assert write(broker, sequence=3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    abort(broker)
    assert write(broker, sequence=2).error_code == ErrorCode.NONE


def test_the_last_sequence_is_followed_by_0(broker: Broker) -> None:
    write(broker, sequence=MAX_SEQUENCE)
    assert write(broker, sequence=0).error_code == ErrorCode.NONE


def test_within_a_transaction_its_producer_writes_nothing_else(broker: Broker) -> None:
    write(broker)
    assert broker.produce("orders", sequenced(7, 0, 1)).error_code == ErrorCode.INVALID_TXN_STATE
    assert broker.produce("orders", sequenced(8, 0, 1)).error_code == ErrorCode.NONE
    commit(broker)
    assert broker.produce("orders", sequenced(7, 0, 1)).error_code == ErrorCode.NONE


def test_a_batch_that_is_damaged_is_refused_as_any_other(broker: Broker) -> None:
    damaged = changed(transactional(7, 0, 0), ">i", 57, 9)
    assert codes(broker, request_of(damaged)) == [ErrorCode.INVALID_RECORD]
    assert codes(broker, request_of(transactional(7, 0, 0))) == [ErrorCode.NONE]


def test_many_partitions_are_asked_about_at_once(broker: Broker) -> None:
    broker.create("wide", 600)
    request = produce_request("wide", transactional(7, 0, 0))
    for number in range(1, 600):
        request.topic_data[0].partition_data += (
            produce_request("wide", transactional(7, 0, 0), number).topic_data[0].partition_data
        )
    request.transactional_id = "t"
    assert set(codes(broker, request)) == {ErrorCode.NONE}
    assert [len(question.partitions) for question in broker.questions] == [600]


def test_plain_batches_are_answered_without_a_step(broker: Broker) -> None:
    """They are most of the traffic and do not wait."""
    for request in (produce_request("orders", batch()), produce_request("orders", sequenced(7, 0, 0))):
        assert isinstance(
            broker.plane.begin_request(request, Context(1, 12, "", "", node=NODE), broker.now), Answer
        )


def test_a_restart_remembers_what_is_open(broker: Broker) -> None:
    write(broker, count=2)
    broker.restart()
    broker.coordinator = Says(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert write(broker, sequence=2).error_code == ErrorCode.NONE
    assert end(broker).error is ErrorCode.NONE
    assert write(broker, sequence=3).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_with_a_transaction_is_not_forgotten(broker: Broker) -> None:
    write(broker)
    broker.advance(broker.config.producer_id_expiration_ms)
    broker.apply_retention()
    assert write(broker, sequence=5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    commit(broker)
    broker.advance(broker.config.producer_id_expiration_ms)
    broker.apply_retention()
    assert write(broker, sequence=5).error_code == ErrorCode.NONE
