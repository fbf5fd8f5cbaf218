"""groupd that shows progress from the first byte on, however short the work is: run as a module, with `log …`."""

from coordinator.cli.log import progress_bar
from coordinator.cli.main import main

progress_bar._DELAY_MS = 0  # type: ignore[misc]

if __name__ == "__main__":
    main()
