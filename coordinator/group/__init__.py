"""The group coordinator as a pure state machine: it turns requests and timers into an `Outcome`, without clock,
I/O, randomness or logger.

Read `coordinator/group/group_shard.py` first, then `coordinator/group/classic/classic_state_machine.py`.
"""
