"""`groupd wire`: prints bytes of the protocol field by field, to debug a client.

The commands read with the reference codec (construct), which the daemon never imports.
"""
