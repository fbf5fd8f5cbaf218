"""Names of version 0.1 that still work, with a warning at the line that uses them."""

from collections.abc import Callable
from typing import Any

import pytest
from groupd_client import Groupd, operation
from groupd_client.operation import ApiEndpoint, Operation, parse_endpoint
from pytest_groupd import daemon
from pytest_groupd.daemon import Daemon, SpawnedDaemon, find_command

URL = "http://127.0.0.1:1"
ENDPOINT = parse_endpoint(URL, None, None)
TOPICS = Operation("GET", ("topics",))


def import_door() -> Any:
    from groupd_client.operation import door  # type: ignore[attr-defined]

    return door


@pytest.mark.parametrize(
    ("use", "present", "value"),
    [
        (import_door, "groupd_client.operation.parse_endpoint", parse_endpoint),
        (lambda: getattr(operation, "Door"), "groupd_client.operation.ApiEndpoint", ApiEndpoint),  # noqa: B009
        (lambda: getattr(daemon, "found_command"), "pytest_groupd.daemon.find_command", find_command),  # noqa: B009
        (lambda: Groupd(URL).door, "Broker.endpoint", ENDPOINT),
        (lambda: ENDPOINT.request(TOPICS), "ApiEndpoint.create_request", ENDPOINT.create_request(TOPICS)),
        (lambda: ENDPOINT.answer(TOPICS, 200, "application/json", b"1"), "ApiEndpoint.read_answer", 1),
        (
            lambda: str(ENDPOINT.unreachable("gone")),
            "create_unreachable",
            str(ENDPOINT.create_unreachable("gone")),
        ),
        (lambda: Daemon(URL, None).end(), "Daemon.describe_end", None),
    ],
)
def test_a_former_name_warns_and_works(use: Callable[[], Any], present: str, value: Any) -> None:
    with pytest.warns(DeprecationWarning, match=f"use .*{present}$") as warned:
        found = use()
    assert found == value
    assert [each.filename for each in warned] == [__file__]


def test_the_former_name_gives_the_end_of_a_spawned_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned = SpawnedDaemon(["groupd"], [])
    monkeypatch.setattr(spawned, "describe_end", lambda: "exit code 1")
    with pytest.warns(DeprecationWarning, match="describe_end"):
        assert spawned.end() == "exit code 1"


@pytest.mark.parametrize("module", [operation, daemon])
def test_a_name_that_there_never_was_is_an_error(module: Any) -> None:
    with pytest.raises(AttributeError, match=f"{module.__name__}.*Window"):
        getattr(module, "Window")  # noqa: B009
