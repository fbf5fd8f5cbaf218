"""The seeded simulator for a cluster: daemons that commit and respond over the model engine, under faults.

world.py      time, daemons, their clients, and the link to the engine, which loses and delays messages
daemon.py     a minimal shell around session, claim and append
history.py    the invariants of the recorded operations
"""
