"""Faults: rules that delay, hold, change, drop or refuse requests, or act on events of groups."""
