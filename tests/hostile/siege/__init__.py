"""One hostile client against a real daemon, and what it costs everybody else.

neighbour.py    a member in a process of its own, that sends a heartbeat every 20 ms and times the answers
siege.py        a daemon with such a neighbour, and beside it another daemon with another one, that nobody
                attacks: what the machine itself is late by is not held against the daemon
place.py        where it is attacked: a listener, and whether the attacker logs in first
attacker.py     what an attack is sent with: bytes made before, on as many connections as it likes

An attack is judged by `Siege.toll`: how late the neighbour's worst answer was, how much memory the daemon took
at most, and how much of it it has kept.
"""
