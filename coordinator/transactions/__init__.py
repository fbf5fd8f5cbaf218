"""The transaction coordinator: the transactions of one `__transaction_state` partition as a pure machine.

`coordinator/transactions/transaction_requests.py` has its requests,
`coordinator/transactions/transaction_event_types.py` its events and `coordinator/transactions/transaction.py` its
state as values.

Sources: KIP-98, KIP-360, KIP-664, KIP-890; Kafka's `TransactionCoordinator`, `TransactionStateManager`,
`TransactionMetadata`.
"""
