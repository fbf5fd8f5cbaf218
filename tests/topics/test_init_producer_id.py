import pytest

from coordinator.topics.producer_ids import BLOCK
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def init(
    broker: Broker, transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return broker.ask(request, InitProducerIdResponse)


@pytest.mark.parametrize("version", all_of(InitProducerIdRequest))
def test_every_version_gives_a_new_id(broker: Broker, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    first = broker.ask(request, InitProducerIdResponse, version)
    second = broker.ask(request, InitProducerIdResponse, version)
    assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
    assert second.producer_id != first.producer_id


def test_ids_never_come_again() -> None:
    files = FaultyFiles()
    seen = set()
    for _ in range(3):
        broker = Broker("/data", files=files)
        for _ in range(BLOCK // 2 + 1):
            producer_id = init(broker).producer_id
            assert producer_id not in seen
            seen.add(producer_id)
        files = files.crash()


def test_an_id_that_cannot_be_reserved_is_not_given_out() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    files.fail("replace")
    assert init(broker).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert init(broker).error_code == ErrorCode.NONE


def test_a_producer_without_transactions_gets_a_new_id_for_an_old_one(broker: Broker) -> None:
    old = init(broker).producer_id
    again = init(broker, producer_id=old, epoch=3)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, 0)
    assert again.producer_id != old


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        ("t", -1, -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(
    broker: Broker, transactional_id: str | None, producer_id: int, epoch: int, code: ErrorCode
) -> None:
    response = init(broker, transactional_id, producer_id, epoch)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


def test_the_error_for_transactions_is_none_that_is_retried() -> None:
    assert not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.retriable
