"""What there is to measure of groups, for metrics: of all of them together, and of each."""
