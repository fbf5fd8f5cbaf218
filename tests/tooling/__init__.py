"""Tests of the repository's own tools: rules for files, test runs, the Makefile."""
