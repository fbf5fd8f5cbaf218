"""JSON over HTTP, as services offer it."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final

from tests.interop.broker import eventually

START_TIMEOUT_S: Final = 120
REQUEST_TIMEOUT_S: Final = 60


def fetch(url: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None) -> bytes:
    """Return the body of a successful answer; nothing if the service refuses or cannot be reached."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    request.method = method
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refused:
        refused.close()
    except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError):
        pass
    return b""


class ConnectRest:
    """The REST interface of a worker of Kafka Connect. `report` returns the end of the worker's log."""

    def __init__(self, url: str, report: Callable[[], str]) -> None:
        self._url = url
        self.report: Final = report

    def get(self, path: str) -> Any:
        """Return the answer of the worker; None if it has none."""
        answer = fetch(f"{self._url}{path}")
        return json.loads(answer) if answer else None

    def wait_ready(self) -> None:
        """Wait until the worker answers."""
        eventually(
            f"the worker at {self._url}", lambda: self.get("/") is not None, self.report, START_TIMEOUT_S
        )

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector. While the group rebalances, the worker refuses it; then it is sent again."""
        url = f"{self._url}/connectors/{name}/config"
        eventually(f"connector {name}", lambda: fetch(url, "PUT", config) != b"", self.report)

    def tasks(self, name: str) -> dict[int, str]:
        """Return the worker of each running task of a connector, by the number of the task."""
        status = self.get(f"/connectors/{name}/status")
        if status is None:
            return {}
        return {task["id"]: task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"}
