"""A recording, played again: is it the same, and what if it had been otherwise."""
