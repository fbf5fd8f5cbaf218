"""Attacks that are generated from the declarations of the messages, one for each list of each request.

list_fields.py      the lists of all requests that groupd advertises, from the declarations
attack.py           attacks on a list (repeated, distinct, long or deep elements), and their order
request_builder.py  the request of an attack, with as many elements and bytes as its size allows
field_values.py     values of fields, by name, that reach the expensive state of the daemon
expensive_state.py  topics, groups, members, transactions, producers and ACLs that make elements expensive
loop_monitor.py     a daemon that writes down its long steps, with CPU time and the stacks that were seen
faulty_daemon.py    the same daemon with a planted fault, which the attacks must find
attack_runner.py    one daemon and one neighbour for many attacks, and the violations of the bounds

`python -m tests.hostile.attacks` runs them by hand.
"""
