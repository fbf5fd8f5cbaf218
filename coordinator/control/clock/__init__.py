"""The clocks of groups: freeze, advance and remove them, and end the sessions of single members."""
