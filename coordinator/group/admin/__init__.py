"""What operators ask for: list, describe and delete groups."""
