"""Why each group rebalanced: an entry for each generation."""
