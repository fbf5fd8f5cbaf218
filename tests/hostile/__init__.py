"""Hostile, broken and unlucky peers, and the bounds of their effects on others.

attacks/     each list of each request repeated, lengthened and enlarged, generated from the declarations
fuzz/        bytes: coverage-guided fuzzing of every decoder, and of the daemon behind a connection
wire/        sessions: random valid requests from many connections over real sockets, judged by a second reading
             of what members may be told
test_*.py    floods, slow peers, huge groups, names of every kind
"""
