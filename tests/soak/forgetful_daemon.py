"""groupd that remembers little: what it keeps up to a bound has to be full before the soak begins to measure.

With the product's own bounds that would take hours, or days: ten thousand closed connections, a hundred thousand
keys of offsets.
"""

from functools import partial
from types import ModuleType
from typing import Final

from coordinator.cli import main
from coordinator.control import control
from coordinator.control.oracles import violations
from coordinator.control.stream.stream import Stream
from coordinator.engine import runtime
from coordinator.group import record_codec
from coordinator.net import connections
from coordinator.server import line_limit

_BOUNDS: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (connections, "CLOSED_REMEMBERED", 200),
    (violations, "MOST", 20),
    (line_limit, "MAX_KEYS", 20),
    (record_codec, "MAX_KEPT_KEYS", 200),
    (runtime, "MAX_ROUTED_KEYS", 50),
)
_RING_BYTES: Final = 1024 * 1024


def _remember_little() -> None:
    """As much as comes within a minute or two of the soak."""
    for module, name, bound in _BOUNDS:
        assert hasattr(module, name), f"{module.__name__} has no {name}"
        setattr(module, name, bound)
    setattr(control, "Stream", partial(Stream, ring_bytes=_RING_BYTES))  # noqa: B010 - it is that module's name


if __name__ == "__main__":
    _remember_little()
    main()
