"""What happens in groups, numbered, for whoever follows it."""
