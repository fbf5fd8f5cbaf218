"""Sends traces of rebalances to the endpoint that OpenTelemetry's variables set (such as
OTEL_EXPORTER_OTLP_ENDPOINT).

The module needs the extra `groupd[otel]`, so it is imported only if one of the variables is set.
"""

import asyncio
import contextlib
import logging
import threading
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from coordinator import __version__
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.ledger.rebalance_trace import Span, build_trace

_LOG: Final = logging.getLogger("Control")
_UNNAMED: Final = "unknown_service"
"""OpenTelemetry's default for the name of a service."""
_SHUTDOWN_TIMEOUT_S: Final = 2.0
"""The time to send the remaining spans at the end of the process, seconds."""


class TraceExporter:
    """Builds spans and sends them in a separate thread. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        resource = Resource.create({SERVICE_VERSION: __version__})
        if str(resource.attributes[SERVICE_NAME]).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "groupd"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("groupd", __version__)

    def on_rebalance_closed(self, entry: LedgerEntry) -> None:
        """Export a closed rebalance."""
        self._send_span(build_trace(entry), Context())

    def _send_span(self, span: Span, context: Context) -> None:
        """Send a span within the context of its parent."""
        sent = self._tracer.start_span(
            span.name, context, attributes=dict(span.attributes), start_time=span.start_ns
        )
        for child in span.children:
            self._send_span(child, set_span_in_context(sent, context))
        if span.failure is not None:
            sent.set_status(Status(StatusCode.ERROR, span.failure))
        sent.end(span.end_ns)

    async def close(self) -> None:
        """Send the remaining spans, within a time limit."""
        loop = asyncio.get_running_loop()
        sent = asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(sent.set)

        # The process does not wait for a daemon thread at its end.
        threading.Thread(target=shut_down, daemon=True).start()
        try:
            await asyncio.wait_for(sent.wait(), _SHUTDOWN_TIMEOUT_S)
        except TimeoutError:
            _LOG.warning(
                "Not all traces were sent: the endpoint did not accept them in %g s", _SHUTDOWN_TIMEOUT_S
            )
