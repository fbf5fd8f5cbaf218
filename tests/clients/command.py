"""How the daemon of this checkout is started."""

import sys
from typing import Final

COMMAND: Final = [sys.executable, "-m", "coordinator"]
