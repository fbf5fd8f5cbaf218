"""Sample data: real clients of several tempers against a groupd, for as long as it takes to see them all.

`python -m tests.sample DIR` leaves a copy of groupd's directory in DIR, taken while all of them were at work. It
needs the package confluent-kafka.
"""
