"""Which broker owns what: one broker that owns all, or several in one process."""
