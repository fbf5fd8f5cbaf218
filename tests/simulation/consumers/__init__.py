"""The simulator for consumer groups: members of both protocols in the same groups, conversions both ways.

topics.py   topics that come, grow and go
member.py   members of the consumer protocol, and of the classic one in the same groups
shell.py    the shell, which tells the topics and does the work that the core asks for
faults.py   what goes wrong, and what people do
checks.py   what must never happen
run.py      one run: faults, then quiet, then what groups must come to
"""
