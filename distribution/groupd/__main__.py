"""`python -m groupd` is the command `groupd`."""

from importlib import import_module

if __name__ == "__main__":
    # Not an import statement: a checkout and an installation have the same text here, whatever runs it.
    import_module(f"{__package__}.coordinator.cli.main").main()
