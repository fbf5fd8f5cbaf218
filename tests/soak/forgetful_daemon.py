"""groupd with small bounds: its bounded stores must be full before the soak begins to measure.

With the default bounds (ten thousand closed connections, a hundred thousand offset keys) that would take hours or
days.
"""

from functools import partial
from importlib import import_module
from typing import Final

from coordinator.cli.main import main
from coordinator.control import control_plane
from coordinator.control.event_stream import EventStream

_BOUNDS: Final = {
    "coordinator.network.connections.MAX_CLOSED_REMEMBERED": 200,
    "coordinator.control.diagnosis.violation_log.MAX_VIOLATIONS": 20,
    "coordinator.core.daemon_log.MAX_KEYS": 20,
    "coordinator.group.group_record_codec.MAX_KEPT_KEYS": 200,
    "coordinator.runtime.runtime.MAX_ROUTED_KEYS": 50,
}
_RING_BYTES: Final = 1024 * 1024


def _remember_little() -> None:
    """As much as comes within a minute or two of the soak."""
    for path, bound in _BOUNDS.items():
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path
        setattr(import_module(module), name, bound)
    setattr(control_plane, "EventStream", partial(EventStream, ring_bytes=_RING_BYTES))  # noqa: B010 - it is that module's name


if __name__ == "__main__":
    _remember_little()
    main()
