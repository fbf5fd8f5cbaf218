"""The version of this distribution."""

from typing import Final

__version__: Final = "0.1.0"
