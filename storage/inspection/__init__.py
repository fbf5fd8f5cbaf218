"""Inspects logs without opening them as their owner: their content and their damage."""
