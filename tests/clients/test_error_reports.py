"""What a test report shows of an error of the clients: that error alone, and never one of their libraries."""

import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from groupd_client import Groupd, GroupdError
from groupd_client.asynchronous import AsyncGroupd

PROBLEM = b'{"type": "urn:groupd:no-such-group", "title": "", "status": 404, "detail": "There is none."}'


class _Daemon(BaseHTTPRequestHandler):
    """Answers a POST, and closes the connection of a DELETE without an answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._send(200, "application/json", b'{"name": "slow", "bootstrap": "127.0.0.1:1"}')

    def do_GET(self) -> None:
        if self.path.endswith("/groups/billing"):
            self._send(404, "application/problem+json", PROBLEM)
        elif self.path.endswith("/topics"):
            self._send(200, "application/json", b"{")

    def do_DELETE(self) -> None:
        """Answers nothing."""

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *args: Any) -> None:
        """Prints nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Daemon) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def stands_alone(error: BaseException) -> bool:
    """Whether the report of an error shows no other one."""
    return "".join(traceback.format_exception(error)).count("Traceback") == 1


SYNC: dict[str, Callable[[Groupd], Any]] = {
    "closes the connection": lambda groupd: groupd.remove_faults(),
    "answers no JSON": lambda groupd: groupd.topics(),
    "answers a problem": lambda groupd: groupd.group("billing").description,
    "answers nothing": lambda groupd: groupd.groups(),
    "asked for no duration": lambda groupd: groupd.group("billing").wait(within="soon"),
}
ASYNC: dict[str, Callable[[AsyncGroupd], Awaitable[Any]]] = {
    "closes the connection": lambda groupd: groupd.remove_faults(),
    "answers no JSON": lambda groupd: groupd.topics(),
    "answers a problem": lambda groupd: groupd.group("billing").description(),
    "answers nothing": lambda groupd: groupd.groups(),
    "asked for no duration": lambda groupd: groupd.group("billing").wait(within="soon"),
}


@pytest.mark.parametrize("what", SYNC)
async def test_an_error_stands_alone_in_its_report(url: str, what: str) -> None:
    kind = ValueError if "duration" in what else GroupdError
    with Groupd(url) as groupd, pytest.raises(kind) as sync:
        SYNC[what](groupd)
    assert stands_alone(sync.value)
    async with AsyncGroupd(url) as groupd_:
        with pytest.raises(kind) as not_sync:
            await ASYNC[what](groupd_)
    assert stands_alone(not_sync.value)


async def test_an_unreachable_daemon_stands_alone_in_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupd_client.operation.PATIENCE_S", 0.2)
    with HTTPServer(("127.0.0.1", 0), _Daemon) as silent:
        for url in ("http://127.0.0.1:1", "http://name.invalid:1", f"http://127.0.0.1:{silent.server_port}"):
            with Groupd(url) as groupd, pytest.raises(GroupdError) as sync:
                groupd.groups()
            assert stands_alone(sync.value)
            async with AsyncGroupd(url) as groupd_:
                with pytest.raises(GroupdError) as not_sync:
                    await groupd_.groups()
            assert stands_alone(not_sync.value)


async def test_a_cleanup_that_fails_as_well_does_not_replace_the_error_of_the_block(url: str) -> None:
    """The report of a test that killed its daemon shows the failure of the test; the cleanup becomes a note."""
    with Groupd(url) as groupd:
        for made in (groupd.fault(use="loading"), groupd.namespace()):
            with pytest.raises(AssertionError) as own, made:
                raise AssertionError("of the test")
            assert stands_alone(own.value)
            assert "slow failed as well" in own.value.__notes__[0]
            with pytest.raises(GroupdError) as cleanup, made:
                pass
            assert stands_alone(cleanup.value)
    async with AsyncGroupd(url) as groupd_:
        with pytest.raises(AssertionError) as own:
            async with groupd_.fault(use="loading"):
                raise AssertionError("of the test")
        assert stands_alone(own.value)
        with pytest.raises(AssertionError) as own:
            async with await groupd_.namespace():
                raise AssertionError("of the test")
        assert stands_alone(own.value)
        with pytest.raises(GroupdError) as cleanup:
            async with groupd_.fault(use="loading"):
                pass
        assert stands_alone(cleanup.value)
