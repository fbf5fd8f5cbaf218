"""The simulator for transactions: producers that die and come back, around the real cores of all who take part.

Real are the coordinator's machine, the groups' machine, what a partition knows of its producers, and the sender of
markers. The shells around them are as small as they can be; nothing of the network's threads or files is there.

log.py           a log that keeps what was synced, refuses now and then, and tells what became of an entry
coordinator.py   the partition of __transaction_state
partition.py     a partition that producers write to, with its markers and its last stable offset
groups.py        the partition of __consumer_offsets
server.py        all of them in one process, which crashes; the verification that partitions ask for
producer.py      a transactional producer as Kafka's clients behave, with or without epochs that rise
readers.py       consumers of committed records, and of offsets
checks.py        what must never happen
run.py           faults, then quiet, then the last checks
"""
