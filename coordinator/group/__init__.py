"""The group coordinator as a pure state machine: requests and timers in, an `Outcome` out.

No clock, no I/O, no randomness, no logger. Read `coordinator/group/group_shard.py` first, then
`coordinator/group/classic/classic_state_machine.py`.
"""
