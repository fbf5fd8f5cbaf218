"""`groupd wire`: prints bytes of the protocol field by field, for people who debug a client.

The commands read with the reference codec (construct), which the daemon never imports.
"""
