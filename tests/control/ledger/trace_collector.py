"""A collector that receives traces over OTLP and keeps them."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TIMEOUT_S: Final = 60


class Collector:
    """What came so far."""

    def __init__(self) -> None:
        self.port = 0
        self.services: set[str] = set()
        self._spans: list[Any] = []
        self._arrived = threading.Condition()

    def take(self, body: bytes) -> None:
        """One request."""
        with self._arrived:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {one.key: one.value.string_value for one in resource.resource.attributes}
                self.services.add(named["service.name"])
                for scope in resource.scope_spans:
                    self._spans += scope.spans
            self._arrived.notify_all()

    def until(self, count: int) -> list[Any]:
        """Waits for so many spans; all that are there, from the earliest."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self._spans) >= count, TIMEOUT_S), self._spans
            return sorted(self._spans, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Listens on a port of this machine."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as its base calls it
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()
