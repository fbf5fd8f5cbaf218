"""What all packages of the coordinator use: the contract of pure machines, the process clock, the daemon's log,
texts for people, and types and names that several packages share.
"""
