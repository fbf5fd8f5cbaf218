"""groupd that remembers little: what it keeps up to a bound has to be full before the soak begins to measure.

With the product's own bounds that would take hours: ten thousand closed connections, a thousand violations.
"""

from functools import partial
from typing import Final

from coordinator.cli import main
from coordinator.control import control
from coordinator.control.oracles import violations
from coordinator.control.stream.stream import Stream
from coordinator.net import connections

_CONNECTIONS: Final = 200
_VIOLATIONS: Final = 20
_RING_BYTES: Final = 1024 * 1024


def _remember_little() -> None:
    """A minute or two of each."""
    setattr(connections, "CLOSED_REMEMBERED", _CONNECTIONS)  # noqa: B010 - the names are the modules' own
    setattr(violations, "MOST", _VIOLATIONS)  # noqa: B010
    setattr(control, "Stream", partial(Stream, ring_bytes=_RING_BYTES))  # noqa: B010


if __name__ == "__main__":
    _remember_little()
    main()
