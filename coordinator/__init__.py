"""groupd: a standalone Kafka group coordinator."""

from typing import Final

__version__: Final = "0.1.0"
