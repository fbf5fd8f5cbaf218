"""Rebalances as traces of OpenTelemetry, made of closed entries of the ledger where somebody asked for them."""
