"""The contract between a pure machine and whoever runs it: what goes in, what comes out, and in what order.

A machine (the groups of a partition, later its transactions) is a function of its inputs. It knows no clock, disk,
socket or random number; it is told the time, and says what to write, to answer and to wait for.
"""
