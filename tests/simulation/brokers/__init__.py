"""The simulator for brokers that share a log: the partition moves between them, and some are stopped.

broker.py    one broker: it coordinates while it owns the partition
brokers.py   all brokers as one process: the owner of the partition and the broker of each connection
faults.py    the faults, including moves and stopped brokers
run.py       one run
"""
