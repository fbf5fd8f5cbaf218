"""Shared code of the commands that call a running daemon over HTTP: requests and output."""
