"""The load of other processes and machines during a measurement."""

import os
from pathlib import Path
from typing import Final

STOLEN: Final = 0.05
"""The share of stolen processor time above which absolute times are not valid."""
_STAT: Final = Path("/proc/stat")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_IDLE_AT: Final = (3, 4)
_STOLEN_AT: Final = 7
_COUNTED: Final = 8
"""The number of kinds of time to add; the later ones are included in others."""


class Neighbours:
    """Measures other processes, and other machines on the same processors, from its creation on."""

    def __init__(self) -> None:
        self._load_before = os.getloadavg()[0]
        self._before = _ticks()

    @property
    def stolen(self) -> float:
        """Return the share of processor time that other machines used."""
        spent = [after - before for before, after in zip(self._before, _ticks(), strict=True)]
        return spent[_STOLEN_AT] / max(1, sum(spent))

    def others(self, own_cpu_seconds: float) -> float:
        """Return the share of processor time that other processes used: all busy time minus `own_cpu_seconds`."""
        spent = [after - before for before, after in zip(self._before, _ticks(), strict=True)]
        busy = sum(spent) - sum(spent[kind] for kind in _IDLE_AT)
        return max(0.0, busy - own_cpu_seconds * _TICKS_PER_S) / max(1, sum(spent))

    def __str__(self) -> str:
        """Describe the load so far for readers of the figures."""
        load = f"load average {self._load_before:.1f} before the run"
        return f"{load}; {self.stolen:.0%} of the processors' time was stolen"


def _ticks() -> list[int]:
    """Return the processors' time by kind."""
    first, _, _ = _STAT.read_text().partition("\n")
    return [int(number) for number in first.split()[1 : 1 + _COUNTED]]
