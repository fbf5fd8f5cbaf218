"""The group coordinator as a pure state machine: requests and timers in, an `Outcome` out.

No clock, no I/O, no randomness, no logger. Read `shard.py` first, then `state.py`.
"""
