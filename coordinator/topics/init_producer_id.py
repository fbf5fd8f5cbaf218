"""InitProducerId: an id for an idempotent producer. Source: KIP-98, KIP-360, Kafka's
`TransactionCoordinator`.

There are no transactions here. A producer with a transactional id gets
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of the errors that this API may carry, it is the one that every
client takes as final (the Java client and librdkafka end in their fatal error state, the others raise it to
the application), where UNSUPPORTED_VERSION or COORDINATOR_NOT_AVAILABLE would be retried by some for ever.
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
    if request.transactional_id is not None:
        if request.transactional_id == "":
            return Answer(_refused(ErrorCode.INVALID_REQUEST))
        return Answer(_refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
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
