"""InitProducerId (22): an id for an idempotent or transactional producer."""

from protocol.apis import ApiKey
from protocol.schema import Int16, Int32, Int64, NullableString, request, response, since


@request(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdRequest:
    """v3 current id and epoch (KIP-360) · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE (KIP-890)"""

    transactional_id: NullableString = since(default=None)
    transaction_timeout_ms: Int32
    producer_id: Int64 = since("3+", default=-1)
    producer_epoch: Int16 = since("3+", default=-1)


@response(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdResponse:
    """v1 throttling by the client · v2 flexible"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    producer_id: Int64 = since(default=-1)
    producer_epoch: Int16
