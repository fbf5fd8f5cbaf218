"""Sockets to requests and back: connections, what bounds them, and the table of who answers what."""
