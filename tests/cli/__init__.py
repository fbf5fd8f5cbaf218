"""Tests of the command, as processes of their own."""
