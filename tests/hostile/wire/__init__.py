"""Sessions over real sockets: random valid requests in random order from many connections, to a daemon of its own.

connection.py   a connection with vices: half frames, slow reading, going away
reading.py      the second reading: what members may be told, and what a fetch may show
question.py     a request and what its answer is good for: those of `memberships.py`, `offsets.py`, `views.py`
play.py         the players, and what is left when they are gone

`python -m tests.hostile.wire --seed 7 --players 30 --bursts 200` plays longer than the tests do. A seed decides
what is asked; what it meets depends on the machine.
"""
