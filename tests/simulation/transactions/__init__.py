"""The simulator for transactions: producers that die and restart, around the real cores.

The transaction coordinator's machine, the group machine, the producer state of partitions and the sender of markers
are real. The shells around them are minimal, without threads, sockets or files.

log.py           a log that keeps synced data, rejects some writes and reports the outcome of an entry
coordinator.py   the partition of __transaction_state
partition.py     a partition with producers, markers and a last stable offset
groups.py        the partition of __consumer_offsets
server.py        all of them in one process that crashes; the verification of transactions for partitions
producer.py      a transactional producer that behaves as Kafka's clients do, with or without epoch bumps
readers.py       consumers of committed records and of offsets
checks.py        the invariants
run.py           one run: faults, then a quiet phase, then the final checks
"""
