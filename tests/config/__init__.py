"""Tests of the daemon's configuration."""
