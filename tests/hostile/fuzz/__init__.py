"""A fuzzer in the process: seeded, guided by the lines that an input makes the code run.

coverage.py     which edges between lines a call takes, how many steps, and when to call it off
mutator.py      bytes made of other bytes
target.py       the targets: seeds, a call, the errors that it may raise
engine.py       the loop: mutate, run, keep inputs with new coverage; a broken invariant is a Finding
messages.py     the codecs of the protocol          stored.py   readers of files
connection.py   bytes into a connection of a whole daemon

`python -m tests.hostile.fuzz --seconds 600 --seed 7` looks further than the tests do; the same seed and number of
runs are the same run.
"""
