"""Recordings over HTTP."""

import pytest

from coordinator.control.recording.recording_registry import DEFAULT_BYTES
from coordinator.control.replay.recording_file import read_recording
from coordinator.control.replay.replay_comparison import compare_recording
from tests.broker.harness import Client, join_alone
from tests.control.interception import list_interceptors
from tests.http.api.api_port import serving_api

NAME = "billing %2F #1"
PATH = "/v1/recordings/billing%20%252F%20%231"
NOTHING = {"recordings": [], "new_groups": False, "unrecorded": 0}


async def test_a_group_is_recorded_listed_downloaded_and_forgotten() -> None:
    async with serving_api() as api, Client(api.server) as member:
        assert (await api.call("GET", "/v1/recordings")).value == NOTHING
        began = await api.call("PUT", PATH)
        assert began.status == 200
        assert began.value["group_id"] == NAME
        assert (began.value["starts"], began.value["most_bytes"]) == ("empty", DEFAULT_BYTES)
        assert (await api.call("PUT", PATH)).value == began.value
        await join_alone(member, NAME)
        (state,) = (await api.call("GET", "/v1/recordings")).value["recordings"]
        file = await api.call("GET", PATH)
        assert (file.status, file.content_type) == (200, "application/x-ndjson")
        recorded = read_recording(file.body.splitlines(keepends=True))
        assert recorded.group_id == NAME
        assert recorded.inputs >= state["inputs"] >= 2
        assert compare_recording(recorded).different is None
        assert (await api.call("DELETE", PATH)).status == 204
        for method in ("GET", "DELETE"):
            assert (await api.call(method, PATH)).problem == "no-such-recording"
        assert list_interceptors(api.server.runtime.find_partition(NAME)) == []


@pytest.mark.parametrize("body", [{"bytes": 1}, {"bytes": 2**40}, {"bytes": "many"}, {"what": 1}, 7])
async def test_what_is_asked_for_wrongly_is_refused(body: object) -> None:
    async with serving_api() as api:
        assert (await api.call("PUT", PATH, body)).problem == "bad-request"
        assert (await api.call("GET", "/v1/recordings")).value == NOTHING


async def test_only_where_control_is_on() -> None:
    async with serving_api(None, {"control.enable": "false"}) as api:
        assert (await api.call("PUT", PATH)).problem == "control-off"


async def test_a_group_of_a_namespace() -> None:
    """It is another one than that of the daemon's own broker."""
    async with serving_api() as api:
        made = await api.call("POST", "/v1/namespaces", {"name": "t-1"})
        assert made.status == 200
        path = "/v1/namespaces/t-1/recordings/billing"
        assert (await api.call("PUT", path)).value["group_id"] == "billing"
        assert (await api.call("GET", "/v1/recordings")).value == NOTHING
        async with Client(port=int(made.value["bootstrap"].rpartition(":")[2])) as member:
            await join_alone(member, "billing")
        file = await api.call("GET", path)
        recorded = read_recording(file.body.splitlines(keepends=True))
        assert recorded.inputs >= 2
        assert compare_recording(recorded).different is None
        assert (await api.call("DELETE", "/v1/namespaces/t-1")).status == 204
        assert (await api.call("GET", path)).problem == "no-such-namespace"


async def test_every_new_group_until_nothing_is_recorded_any_more() -> None:
    async with serving_api() as api, Client(api.server) as member:
        assert (await api.call("PUT", "/v1/recordings")).value == NOTHING | {"new_groups": True}
        await join_alone(member, NAME)
        listed = (await api.call("GET", "/v1/recordings")).value
        assert [state["group_id"] for state in listed["recordings"]] == [NAME]
        file = await api.call("GET", PATH)
        assert compare_recording(read_recording(file.body.splitlines(keepends=True))).different is None
        assert (await api.call("DELETE", "/v1/recordings")).status == 204
        assert (await api.call("GET", "/v1/recordings")).value == NOTHING
