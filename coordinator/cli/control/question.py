"""What a question to a daemon may leave out."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PATIENCE_S: Final = 30.0
"""How long an answer may take that waits for nothing."""

Query = Mapping[str, str | int | tuple[str, ...] | None]
"""What is asked for, a name with several values as often; None where it is not."""

NOTHING: Final[Query] = MappingProxyType({})
