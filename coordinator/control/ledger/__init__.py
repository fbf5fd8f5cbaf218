"""The rebalance ledger: the cause and the course of each rebalance of a group, one entry for each generation."""
