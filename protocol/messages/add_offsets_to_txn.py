"""AddOffsetsToTxn (25): announce that a transaction will commit offsets of a group."""

from protocol.apis import ApiKey
from protocol.schema import Int16, Int32, Int64, String, request, response, since


@request(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnRequest:
    """v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE"""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@response(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    """v3 has the flexible encoding."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
