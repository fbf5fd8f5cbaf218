"""Topics, asked about and changed by people."""
