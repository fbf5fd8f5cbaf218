"""Classic consumer groups: the protocol of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""
