"""SASL on the wire: what a connection has to show before it takes requests, and to show again later."""
