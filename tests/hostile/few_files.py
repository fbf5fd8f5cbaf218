"""`python -m tests.hostile.few_files serve …`: the daemon, where the system gives it few descriptors."""

import resource
from typing import Final

from coordinator.cli.main import main as groupd

FILES: Final = 100


def main() -> None:
    """Run the command of groupd under a hard limit."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    groupd()


if __name__ == "__main__":
    main()
