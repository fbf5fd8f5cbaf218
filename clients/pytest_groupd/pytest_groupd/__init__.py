"""A fresh groupd for every test. Fixtures `groupd`, `broker` and `async_broker`, the mark `groupd`: see
`plugin.py`."""

from typing import Final

__version__: Final = "0.1.0"
