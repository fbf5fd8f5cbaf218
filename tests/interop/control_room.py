"""What tests ask of a groupd over HTTP, as a test in any language would: requests, and sentences that say no."""

import json
import urllib.error
import urllib.request
from typing import Any, Final

import pytest

from tests.interop.broker import Broker
from tests.interop.member import Partition
from tests.interop.requirement import lacking

ACTOR: Final = "tests/interop"
ANSWER_TIMEOUT_S: Final = 90
READY: Final = "60s"

Answer = dict[str, Any]


class ControlRoom:
    """The group `name` of a broker, as /v1 has it."""

    def __init__(self, broker: Broker, name: str) -> None:
        """Skip the test if the broker is not a groupd of the tests."""
        if not broker.is_groupd:
            lacking("only groupd has a control room")
        self._base = f"http://{broker.http}/v1"
        self._group = f"/groups/{name}"

    def ask(self, method: str, path: str, body: Answer | None = None) -> Answer:
        """One request below /v1. A refusal fails the test, with the sentence that it has."""
        headers = {"Content-Type": "application/json", "X-Groupd-Actor": ACTOR}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                pytest.fail(f"{method} {path} is refused: {json.loads(refused.read())['detail']}")
        return dict(json.loads(text)) if text else {}

    def post(self, path: str, **body: object) -> Answer:
        """A request about the group."""
        return self.ask("POST", self._group + path, body)

    def wait(self, **conditions: object) -> int:
        """Waits until the group is as it should be; the number of its last event."""
        return int(self.post("/wait", within=READY, **conditions)["seq"])

    def describe(self) -> Answer:
        """The group as it is."""
        return self.ask("GET", self._group)

    def member_ids(self) -> dict[str, str]:
        """The member id of each client."""
        return {member["client_id"]: member["member_id"] for member in self.describe()["members"]}

    def assignments(self) -> dict[str, set[Partition]]:
        """Return the partitions that the coordinator assigned to each client."""
        return {
            member["client_id"]: {
                (topic, number)
                for topic, numbers in (member["assignment"] or {}).items()
                for number in numbers
            }
            for member in self.describe()["members"]
        }

    def connected(self) -> set[str]:
        """The clients that have a connection."""
        return {member["client_id"] for member in self.describe()["members"] if member["is_connected"]}

    def explain(self) -> str:
        """Return the explanation of the group."""
        return json.dumps(self.ask("GET", self._group + "/explain"))

    def entries(self, after: int) -> list[Answer]:
        """What the ledger has since an event, oldest first."""
        return list(self.ask("GET", f"{self._group}/ledger?after={after}&limit=1000")["entries"])
