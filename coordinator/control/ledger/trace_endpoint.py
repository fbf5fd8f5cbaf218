"""Traces of rebalances are sent if a variable of OpenTelemetry sets an OTLP endpoint.

Only then is the exporter imported.
"""

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.control.ledger.trace_exporter import TraceExporter

_LOG: Final = logging.getLogger("Control")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def find_endpoint_variable() -> str | None:
    """Return the first variable with an endpoint. OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none turn traces
    off.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    return next((name for name in _ENDPOINTS if os.environ.get(name, "").strip()), None)


def preload_exporter() -> None:
    """Import the exporter in a thread if an endpoint is set. The import takes some tenths of a second."""
    if find_endpoint_variable() is not None:
        with contextlib.suppress(ImportError):  # `create_exporter` logs it
            from coordinator.control.ledger import trace_exporter  # noqa: F401


def create_exporter() -> "TraceExporter | None":
    """Create the exporter, or return None if no endpoint is set or its packages are missing."""
    variable = find_endpoint_variable()
    if variable is None:
        return None
    from storage.optional_dependencies import OptionalDependencyError, require_extra

    try:
        with require_extra("otel", variable):
            from coordinator.control.ledger.trace_exporter import TraceExporter
    except OptionalDependencyError as error:
        _LOG.warning("Rebalances are not traced: %s", error)
        return None
    return TraceExporter()
