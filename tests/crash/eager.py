"""groupd that writes states far more often than is sensible: `python -m tests.crash.eager serve …`."""

from coordinator.cli.main import main
from coordinator.runtime import state_keeper

state_keeper.MIN_RECORDS_AT_STOP = 1  # type: ignore[misc]
state_keeper.MIN_RECORDS_WHILE_RUNNING = 20  # type: ignore[misc]
state_keeper.MIN_RECORDS_PER_KEY = 0  # type: ignore[misc]
state_keeper.PAUSE_S = 0.001  # type: ignore[misc]

if __name__ == "__main__":
    main()
