"""What people and their tools look at: HTTP."""
