"""Tests of the shell, over real sockets, in this process."""
