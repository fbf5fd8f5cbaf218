"""A seeded simulator: clients, network, disk and clock under faults, around the real group core.

One `random.Random(seed)` decides everything, so `python -m tests.simulation --seed N` is the same run each time.

world.py     virtual time and the queue of what happens next
network.py   connections that delay, break and repeat
disk.py      a log that keeps what was synced, and of the rest only what luck leaves
shell.py     the smallest shell around the core: timers, gate, crash, reload
client.py    a consumer as Kafka's clients behave; `visitors.py` those who only commit or administer
faults.py    what goes wrong, and when
checks.py    what must never happen
run.py       one run: faults, then quiet, then the last checks

brokers/       the same members with several brokers, between which their partition moves
consumers/     the same for consumer groups, with members of both protocols
transactions/  the same for producers with transactions
cluster/       daemons that share a replicated log
"""
