"""What a group was told, one line for each input, and what came of it."""
