"""`groupd log`: reads, checks and repairs logs on disk. Each subcommand is imported when it is called."""
