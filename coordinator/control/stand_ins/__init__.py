"""Stand-ins: members of groups that groupd plays itself, so that one real consumer can be tested among others."""
