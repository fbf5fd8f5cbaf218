"""TLS of listeners: what key stores hold, the contexts made of them, and who a client's certificate says it is."""
