"""Whether rebalances are traced: where one of OpenTelemetry's variables says to whom."""

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.control.traces.exporter import TraceExporter

_LOG: Final = logging.getLogger("Control")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def asked_for() -> str | None:
    """The variable that asks for it; None where none does, or OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER=none."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    return next((name for name in _ENDPOINTS if os.environ.get(name, "").strip()), None)


def preload() -> None:
    """Imports what traces need, where they are wanted: a thread spends some tenths of a second on that."""
    if asked_for() is not None:
        with contextlib.suppress(ImportError):  # `made_exporter` says so
            import coordinator.control.traces.exporter  # noqa: F401


def made_exporter() -> "TraceExporter | None":
    """None where nobody asked for it, or what it needs is not there."""
    variable = asked_for()
    if variable is None:
        return None
    try:
        from coordinator.control.traces.exporter import TraceExporter
    except ImportError as error:
        _LOG.warning(
            "%s is set, but rebalances are not traced: pip install groupd[otel] (%s)", variable, error
        )
        return None
    return TraceExporter()
