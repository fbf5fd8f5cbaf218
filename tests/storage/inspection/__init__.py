"""Logs read and verified from outside, also beside a running daemon."""
