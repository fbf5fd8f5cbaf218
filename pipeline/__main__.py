"""`python -m pipeline`: the same as `groupd-pipeline`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
