"""The control plane: queries and commands of operators, such as the cause of a rebalance or the reason of a wait.

`control_plane.py` connects its parts. HTTP and the command line format its results, which are values.
`docs/control.md` is the guide for users.
"""
