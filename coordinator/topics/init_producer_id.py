"""InitProducerId without a transactional id: an id for an idempotent producer. With one it is for the transaction
coordinator. Source: KIP-98, KIP-360, Kafka's `TransactionCoordinator`.
"""

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.data_plane import DataPlane, Steps
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def answer_init_producer_id(
    plane: DataPlane, request: InitProducerIdRequest, context: Context, now: Now
) -> Answer | Steps:
    """A new id at epoch 0. An id that a producer without transactions already has is replaced, as
    in Kafka.
    """
    assert request.transactional_id is None, "for the transaction coordinator"
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Answer(_refused(ErrorCode.INVALID_REQUEST))
    producer_id = plane.producer_ids.take()
    return _wait_for_id(plane) if producer_id is None else _given(producer_id)


def _wait_for_id(plane: DataPlane) -> Steps:
    try:
        producer_id = yield from plane.producer_ids.taking()
    except OSError:
        return Answer(_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return _given(producer_id)


def _given(producer_id: int) -> Answer:
    return Answer(
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
