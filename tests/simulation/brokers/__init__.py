"""The simulator for several brokers that share a log: the partition moves between them, and some are stopped.

broker.py    one of them: it coordinates while it owns the partition
brokers.py   all of them, as one process: who owns the partition, and which broker a connection leads to
faults.py    what goes wrong: also moves, and brokers that stop
run.py       one run
"""
