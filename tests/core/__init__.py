"""Tests of the package that every layer of the daemon may import."""
