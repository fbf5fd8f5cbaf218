"""The transaction coordinator: the transactions of one `__transaction_state` partition as a pure machine.

What it is asked is in `requests.py`, what it says of itself in `events.py` and `view.py`. Sources: KIP-98, KIP-360,
KIP-664, KIP-890; Kafka's `TransactionCoordinator`, `TransactionStateManager`, `TransactionMetadata`.
"""
