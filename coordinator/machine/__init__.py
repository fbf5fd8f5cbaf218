"""The contract between a pure machine and whoever runs it: what goes in, what comes out, and in what order.

A machine (the groups of a partition, later its transactions) is a function of its inputs. It knows no clock, disk,
socket or random number; it is told the time, and says what to write, to answer and to wait for.

Handlers of new machines compute on the old state, collect the facts that they mean to write, and call `Turn.write`
for them last: a request that is refused half-way has changed nothing. An error that leaves a handler drops all that
its turn meant to write, reply or arm; since facts may be applied by then, whoever runs the machine loads it again.
"""
