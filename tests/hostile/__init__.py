"""What a hostile, broken or unlucky peer can do, and what it must not lead to.

fuzz/        bytes: coverage-guided fuzzing of every decoder, and of the daemon behind a connection
wire/        sessions: random valid requests from many connections over real sockets, judged by a second reading
             of what members may be told
test_*.py    floods, slow peers, huge groups, names of every kind
"""
