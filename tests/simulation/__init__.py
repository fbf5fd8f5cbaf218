"""A seeded simulator: clients, network, disk and clock under faults, around the real group core.

One `random.Random(seed)` decides everything, so `python -m tests.simulation --seed N` is the same run each time.

world.py     virtual time and the queue of scheduled events
network.py   connections that delay, break and repeat requests
disk.py      a log that keeps synced data and a random part of the rest
shell.py     a minimal shell around the core: timers, gate, crash, reload
client.py    a consumer that behaves as Kafka's clients do; `visitors.py` clients that only commit or administer
faults.py    the schedule of faults
checks.py    the invariants
run.py       one run: faults, then a quiet phase, then the final checks

brokers/       the same members with several brokers, between which their partition moves
consumers/     the same for consumer groups, with members of both protocols
transactions/  the same for producers with transactions
cluster/       daemons that share a replicated log
"""
