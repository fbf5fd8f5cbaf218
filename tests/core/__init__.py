"""Tests of what every layer of the daemon may import."""
