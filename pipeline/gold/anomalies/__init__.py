"""Anomalies with the silver rows that show them. Each module finds one kind; all return the same columns."""
