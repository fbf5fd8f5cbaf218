"""`python -m coordinator` is `groupd`."""

from coordinator.cli import main

if __name__ == "__main__":
    main()
