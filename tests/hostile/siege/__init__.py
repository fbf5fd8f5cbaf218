"""One hostile client against a real daemon, and its effect on other clients.

neighbour.py    a member in its own process that sends a heartbeat every 20 ms and measures the responses
siege.py        a daemon with such a neighbour, and a second daemon with another one as a reference: delays of the
                machine do not count against the daemon
place.py        the attacked listener, and whether the attacker logs in first
attacker.py     sends prepared bytes over any number of connections

`Siege.toll` has the result of an attack: the largest delay of a response to the neighbour, the largest memory
of the daemon, and the memory that it kept.
"""
