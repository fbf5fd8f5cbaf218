"""Group members and producers built on stock clients, one program each, all speaking one protocol.

A driver takes its settings as `--name value` options, reads commands from standard input, one a line, and
prints events to standard output as JSON lines. `conversation.py` says which; the drivers in JavaScript, Java
and Go keep to the same words.
"""
