"""Authentication and authorization: pure rules in `core`, TLS and SASL of listeners in `server`, and the store of
ACLs and credentials."""
