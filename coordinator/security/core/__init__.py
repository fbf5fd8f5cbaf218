"""Principals, ACLs, SASL mechanisms and tokens. Pure: no socket, file or clock."""
