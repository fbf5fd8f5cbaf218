"""EndTxn (26): commit or abort a transaction."""

from protocol.apis import ApiKey
from protocol.schema import Bool, Int16, Int32, Int64, String, request, response, since


@request(ApiKey.END_TXN)
class EndTxnRequest:
    """v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE · v5 each end bumps the epoch (KIP-890)"""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@response(ApiKey.END_TXN)
class EndTxnResponse:
    """v5 producer id and epoch of the next transaction"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    producer_id: Int64 = since("5+", default=-1)
    producer_epoch: Int16 = since("5+", default=-1)
