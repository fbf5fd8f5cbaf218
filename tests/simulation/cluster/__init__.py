"""The seeded simulator for a cluster: daemons that commit and answer over the model engine, under faults.

world.py      time, daemons, their clients, and the link to the engine, which loses and delays messages
daemon.py     the smallest shell around session, claim and append
history.py    what must hold of all that was written down
"""
