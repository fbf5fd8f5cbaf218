"""What people ask a coordinator and change about it: why did this group rebalance, why is it not ready, what if.

`control_plane.py` puts its parts together; what HTTP and the command line answer comes from here as values.
`docs/control.md` is the guide for those who use it.
"""
