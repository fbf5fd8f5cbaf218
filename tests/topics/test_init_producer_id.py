import pytest

from coordinator.topics.producer_ids import BLOCK_SIZE
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def init(broker: Broker, producer_id: int = -1, epoch: int = -1) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=None,
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
        for _ in range(BLOCK_SIZE // 2 + 1):
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
    ("producer_id", "epoch"),
    [
        (5, -1),
        (-1, 5),
    ],
)
def test_an_id_comes_with_its_epoch(broker: Broker, producer_id: int, epoch: int) -> None:
    response = init(broker, producer_id, epoch)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
