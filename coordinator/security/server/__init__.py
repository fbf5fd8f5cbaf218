"""SASL and TLS on a connection, and re-authentication (KIP-368)."""
