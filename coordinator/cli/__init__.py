"""The command `groupd`. `main.py` is its entry point; the module of a subcommand is imported when it is called."""
