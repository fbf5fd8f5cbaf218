"""Tests of traces of rebalances."""
