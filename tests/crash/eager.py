"""groupd that writes states far more often than is sensible: `python -m tests.crash.eager serve …`."""

from coordinator.cli import main
from coordinator.engine import state_keeper

state_keeper.RECORDS_AT_A_STOP = 1  # type: ignore[misc]
state_keeper.RECORDS_MEANWHILE = 20  # type: ignore[misc]
state_keeper.RECORDS_FOR_EACH_KEY = 0  # type: ignore[misc]
state_keeper.PAUSE_S = 0.001  # type: ignore[misc]

if __name__ == "__main__":
    main()
