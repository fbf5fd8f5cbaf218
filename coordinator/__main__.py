"""`python -m coordinator` is `groupd`."""

from coordinator.cli.main import main

if __name__ == "__main__":
    main()
