"""The seeded simulator for a cluster: daemons that commit and answer over the model engine, under faults.

world.py      time, daemons, the link to the engine with its lost and late requests and answers
daemon.py     the smallest shell around session, claim and append
clients.py    who commits and fetches, and writes down when each began, ended and what it was told
history.py    what must hold of all that was written down
"""
