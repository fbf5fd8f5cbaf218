"""Hostile, broken and unlucky peers, and the bounds of their effects on others.

attacks/     each list of each request repeated, lengthened and enlarged, generated from the declarations
fuzz/        bytes: coverage-guided fuzzing of every decoder, and of the daemon behind a connection wire/
sessions: random valid requests from many connections over real sockets, checked by a second model of the
allowed responses test_*.py    floods, slow peers, huge groups, names of every kind
"""
