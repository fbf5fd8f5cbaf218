"""Sessions over real sockets: random valid requests in random order from many connections to one daemon.

connection.py   a connection with bad habits: half frames, slow reading, disconnections
reading.py      the checker: a second model of the responses that members and fetches may get
question.py     a request with the use of its response: those of `memberships.py`, `offsets.py`, `views.py`
play.py         the players, and the state after they are gone

`python -m tests.hostile.wire --seed 7 --players 30 --bursts 200` plays longer than the tests. The seed
determines the requests; their interleaving depends on the machine.
"""
