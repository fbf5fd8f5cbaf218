"""The simulator for consumer groups: members of both protocols in the same groups, conversions both ways.

topics.py   topics that are created, extended and deleted
member.py   members of the consumer protocol, and of the classic one in the same groups
shell.py    the shell: it reports topics to the core and does its background work
faults.py   faults and actions on members
checks.py   the invariants
run.py      one run: faults, then a quiet phase, then the expected state of the groups
"""
