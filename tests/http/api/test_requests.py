"""Invalid API requests get a clear problem+json response and change nothing."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from coordinator.http.api.api_messages import MAX_BODY_BYTES
from coordinator.http.api.route_table import ALL_ROUTES
from tests.broker.test_recovery import SlowFiles
from tests.hostile.test_names import NAMES, one_life
from tests.http.api.api_port import JSON, serving_api
from tests.http.test_http import Caller, asked

PATH: Final = "/v1/groups/billing/offsets"
_NAME: Final = re.compile(r"{\w+}")
RESET: Final = {"to": "latest", "topics": ["orders"]}
TOO_MANY: Final = {f"orders-{number}": 1 for number in range(20_000)}

WRONG: Final[dict[str, tuple[Any, str]]] = {
    "misspelt": ({"ofsets": {"orders-0": 1}}, "/ofsets"),
    "misspelt beside": ({"offsets": {"orders-0": 1}, "dryrun": True}, "/dryrun"),
    "nothing": ({}, ""),
    "two ways": ({"offsets": {"orders-0": 1}, "to": "latest"}, ""),
    "a list": ([1], ""),
    "null": (None, ""),
    "text for a number": ({"offsets": {"orders-0": "1"}}, "/offsets/orders-0"),
    "float": ({"offsets": {"orders-0": 1.5}}, "/offsets"),
    "bool": ({"offsets": {"orders-0": True}}, "/offsets"),
    "negative": ({"offsets": {"orders-0": -1}}, "/offsets"),
    "huge": ({"offsets": {"orders-0": 2**63}}, "/offsets"),
    "huger": ({"to": 10**4000}, "/to"),
    "huge time": ({"to_time_ms": 2**63}, "/to_time_ms"),
    "huge shift": ({"offsets": {"orders-0": "+" + "9" * 50}}, "/offsets/orders-0"),
    "no place": ({"to": "newest", "topics": ["orders"]}, "/to"),
    "no partition": ({"offsets": {"orders": 1}}, "/offsets/orders"),
    "strange partition": ({"offsets": {"orders-\u0663": 1}}, "/offsets/orders-\u0663"),
    "huge partition": ({"offsets": {"orders-99999999999": 1}}, "/offsets/orders-99999999999"),
    "steering a terminal": ({"offsets": {"\x1b[31m": 1}}, "/offsets/\\x1b[31m"),
    "nothing to shift": ({"offsets": {"orders-0": "+1"}}, "/offsets/orders-0"),
    "of which topics": ({"to": "latest"}, "/topics"),
    "topics twice": ({"offsets": {"orders-0": 1}, "topics": ["orders"]}, "/topics"),
    "topics of numbers": ({"to": "latest", "topics": [1]}, "/topics/0"),
    "bool for text": ({"to": "latest", "topics": ["orders"], "dry_run": "yes"}, "/dry_run"),
    "deep": ({"topics": [["orders"]], "to": "latest"}, "/topics/0"),
}
NO_JSON: Final = {
    "cut off": b'{"offsets": {"orders-0": 1',
    "two": b'{"to": "latest"} {"to": "latest"}',
    "not UTF-8": b'{"to": "\xff"}',
    "NaN": b'{"to": NaN}',
    "deep list": b'{"to": ' + b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "many digits": b'{"to": ' + b"9" * 900_000 + b"}",
    "comment": b'{"to": "latest" /* all */}',
}


async def test_a_wrong_body_is_told_by_field() -> None:
    async with serving_api() as api:
        for name, (body, pointer) in WRONG.items():
            data = b"null" if body is None else None
            answer = await api.call("PUT", PATH, body, data=data, headers={"Content-Type": JSON})
            assert (answer.status, answer.problem) == (400, "bad-request"), name
            assert answer.value["pointer"] == pointer, (name, answer.value)
            assert len(answer.value["detail"]) < 1000
        for name, data in NO_JSON.items():
            answer = await api.call("PUT", PATH, data=data, headers={"Content-Type": JSON})
            assert answer.problem == "bad-request", name
        many = await api.call("PUT", PATH, {"offsets": TOO_MANY})
        assert (many.problem, many.value["pointer"]) == ("bad-request", "/offsets")
        assert (await api.call("GET", PATH)).problem == "no-such-group"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("sate=Stable", "/sate"),
        ("state=Steady", "/state"),
        ("state=Stable&state=Empty", "/state"),
        ("state", "/state"),
        ("prefix=a&x=1", "/x"),
    ],
)
async def test_a_wrong_query_is_told_by_field(query: str, pointer: str) -> None:
    async with serving_api() as api:
        answer = await api.call("GET", f"/v1/groups?{query}")
        assert answer.problem == "bad-request"
        assert answer.value["pointer"] == pointer
        assert (await api.call("GET", "/v1/groups/billing?x=1")).problem == "bad-request"


async def test_below_v1_everything_is_a_problem() -> None:
    async with serving_api() as api:
        for path in ("/v1/", "/v1/nothing", "/v1/groups/", "/v1/groups/a/b/c/d", "/v1/groups//offsets"):
            assert (await api.call("GET", path)).problem == "no-such-path", path
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = await api.call(method, "/v1/groups")
            assert answer.problem == "no-such-method", method
            assert answer.headers["Allow"] == "GET, HEAD"
        for method, path in (("GET", "/v1/groups"), ("DELETE", "/v1/groups/billing"), ("GET", "/v1/stream")):
            answer = await api.call(method, path, {"a": 1})
            assert (answer.problem, answer.value["pointer"]) == ("bad-request", "/a")
        strange = await api.call("GET", "/v1/groups/%ED%A0%80%1b%5B31m%0a")
        assert strange.problem in ("no-such-group", "bad-request")
        assert (await api.call("GET", "/v1x")).content_type == "text/plain"


async def test_what_has_no_body_may_say_any_type_of_it() -> None:
    """Clients of some languages say one with every POST, PUT and DELETE."""
    async with serving_api() as api:
        for content_type in ("application/octet-stream", "application/x-www-form-urlencoded"):
            headers = {"Content-Type": content_type}
            assert (await api.call("DELETE", "/v1/groups/nobody", headers=headers)).problem == "no-such-group"
            assert (await api.call("PUT", PATH, headers=headers)).problem == "bad-request"
            assert (await api.call("GET", "/v1/groups", headers=headers)).status == 200


@pytest.mark.parametrize("body", [b"{}", b" {} ", b"null"])
async def test_a_route_without_parameters_accepts_an_empty_body(body: bytes) -> None:
    """Many HTTP clients send `{}` with every POST. The answer is the one to a request without a body."""
    async with serving_api() as api:
        routes = [route for route in ALL_ROUTES if route.body is None and route.method != "GET"]
        assert any(route.method == "POST" for route in routes)
        for route in routes:
            path = "/v1" + _NAME.sub("nobody", route.path)
            plain = await api.call(route.method, path)
            empty = await api.call(route.method, path, data=body, headers={"Content-Type": JSON})
            assert empty.status == plain.status, (route.method, path, empty)
        for path in ("/v1/groups", "/v1/openapi.json"):
            assert (await api.call("GET", path, data=body, headers={"Content-Type": JSON})).status == 200
        assert (await api.call("DELETE", "/v1/faults", data=body)).problem == "not-json"


async def test_a_wait_for_an_empty_list_is_over_at_once() -> None:
    async with serving_api() as api:
        for end in ("wait", "check"):
            assert (await api.call("POST", f"/v1/groups/billing/{end}", {"absent": []})).status == 200
        expired = await api.call("POST", "/v1/groups/billing/offsets/expire", {"at": "+8d", "topics": []})
        assert expired.problem == "no-such-group"


@pytest.mark.parametrize(
    ("method", "path", "body", "meant"),
    [
        ("POST", "/v1/groups/billing/wait", {"sate": "Stable"}, "state"),
        ("POST", "/v1/groups/billing/check", {"members": {"mn": 1}}, "min"),
        ("POST", "/v1/faults", {"match": {"apii": "JoinGroup"}}, "api"),
        ("POST", "/v1/faults", {"match": {"role": "ledaer"}}, "leader"),
        ("POST", "/v1/faults", {"do": {"at": "requets"}}, "request"),
        ("POST", "/v1/faults", {"do": {"at": "request", "error": "UNKNOWN_MEMBER"}}, "UNKNOWN_MEMBER_ID"),
        ("POST", "/v1/faults", {"fro": "5s"}, "for"),
        ("PUT", "/v1/clock", {"frozen": True, "excpet": "gone"}, "except"),
        ("POST", "/v1/topics", {"name": "a", "config": {"retention.sm": "1"}}, "retention.ms"),
        ("POST", "/v1/namespaces", {"config": {"group.max.sise": "1"}}, "group.max.size"),
        ("GET", "/v1/groups?state=Stabel", None, "Stable"),
        ("GET", "/v1/violations?oracle=flaping", None, "flapping"),
        ("GET", "/v1/stream?kind=MemberLeaft", None, "MemberLeft"),
    ],
)
async def test_a_misspelt_name_is_answered_with_the_nearest(
    method: str, path: str, body: Any, meant: str
) -> None:
    async with serving_api() as api:
        answer = await api.call(method, path, body)
        assert answer.status in (400, 409)
        assert f"did you mean {meant}?" in answer.value["detail"]


async def test_where_no_name_is_near_all_are_listed() -> None:
    async with serving_api() as api:
        unlike = await api.call("POST", "/v1/faults", {"match": {"role": "x"}})
        assert "(valid: follower, leader)" in unlike.value["detail"]
        nothing = await api.call("DELETE", "/v1/faults", {"x": 1})
        assert "no parameters" in nothing.value["detail"]


async def test_what_is_asked_with_head_is_answered_without_a_body() -> None:
    async with serving_api() as api:
        for path in ("/v1", "/v1/groups", "/v1/openapi.json"):
            full, head = await api.call("GET", path), await api.call("HEAD", path)
            assert (head.status, head.content_type, head.body) == (200, full.content_type, b"")
            assert head.headers["Content-Length"] == str(len(full.body))
        assert (await api.call("HEAD", "/v1/groups/nobody")).status == 404


async def test_people_get_text_where_there_is_some() -> None:
    async with serving_api() as api:
        for accept in ("text/plain", "text/plain; q=0.9, */*"):
            answer = await api.call("GET", "/v1", headers={"Accept": accept})
            assert answer.content_type == "text/plain"
            assert b"/v1/groups/{group}" in answer.body
        for accept in ("*/*", "application/json", "application/json, text/plain", "text/html"):
            assert (await api.call("GET", "/v1", headers={"Accept": accept})).content_type == JSON
        assert (await api.call("GET", "/v1/groups", headers={"Accept": "text/plain"})).content_type == JSON


async def test_no_text_for_people_steers_a_terminal(tmp_path: Path) -> None:
    async with serving_api(tmp_path, {"log.dirs": str(tmp_path)}) as api:
        for name in NAMES.values():
            await one_life(api.server, name)
            path = quote(name, safe="")
            stand_in = {"client_id": name[:200], "topics": ["orders"], "group_instance_id": name[:200]}
            await api.call("POST", f"/v1/groups/{path}/stand-ins", stand_in)
            await api.call("PUT", f"/v1/groups/{path}/clock", {"frozen": True})
            await api.call("PUT", f"/v1/recordings/{path}")
        for route in ALL_ROUTES:
            if route.method != "GET" or route.text is None:
                continue
            for name in NAMES.values() if "{group}" in route.path else ("",):
                where = "/v1" + _NAME.sub(quote(name, safe=""), route.path)
                answer = await api.call("GET", where, headers={"Accept": "text/plain"})
                assert all(map(str.isprintable, answer.body.decode().split("\n"))), where


async def test_nothing_is_kept_by_caches_or_read_by_other_sites() -> None:
    async with serving_api() as api:
        for path in ("/v1", "/v1/groups", "/v1/nothing", "/v1/openapi.json"):
            headers = (await api.call("GET", path, headers={"Origin": "http://evil.example"})).headers
            assert headers["Cache-Control"] == "no-store"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert not [name for name in headers if name.lower().startswith("access-control")]


async def test_a_body_that_is_too_large_is_not_read() -> None:
    async with serving_api() as api:
        head = f"PUT {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
        huge = f"{head}Content-Length: {10**12}\r\n\r\n".encode()
        assert (await asked(api.port, huge))[0] == 413
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        async with Caller(api.port) as caller:
            caller.writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"1\r\n \r\n")
            status = int((await asyncio.wait_for(caller.reader.readline(), 60)).split()[1])
            assert status == 413
        spaces = b" " * (MAX_BODY_BYTES - 2) + b"{}"
        whole = await api.call("PUT", PATH, data=spaces, headers={"Content-Type": JSON})
        assert whole.problem == "bad-request"  # of the right size, and says nothing
        packed = {"Content-Type": JSON, "Content-Encoding": "gzip"}
        assert (await api.call("PUT", PATH, data=b"\x1f\x8b", headers=packed)).problem == "not-json"


async def test_a_body_that_comes_too_slowly_is_given_up() -> None:
    hasty = {"http.request.timeout.ms": "300", "http.max.connections": "2"}
    async with serving_api(None, hasty) as api:
        begun = (
            f"PUT {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n{{"
        )
        answer = await asked(api.port, begun.encode())
        assert answer[0] == 400
        assert "http.request.timeout.ms" in answer[1]


async def test_slow_bodies_take_nobodys_place() -> None:
    async with serving_api(None, {"http.max.connections": "3"}) as api:
        begun = (
            f"PUT {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: 9\r\n\r\n{{"
        )
        slow = [await Caller(api.port).__aenter__() for _ in range(9)]
        for caller in slow:
            caller.writer.write(begun.encode())
        for _ in range(5):
            answer = await asked(
                api.port, b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            assert answer[0] == 200
        for caller in slow:
            await caller.__aexit__()


async def test_waits_and_streams_leave_places_to_what_is_answered_at_once() -> None:
    wait = b'{"members": 1, "within": "10m"}'
    waiting = (
        f"POST /v1/groups/billing/wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
        f"Content-Length: {len(wait)}\r\n\r\n"
    ).encode() + wait
    async with serving_api(None, {"http.max.connections": "4"}) as api:
        callers = [await Caller(api.port).__aenter__() for _ in range(3)]
        for caller in callers[:2]:
            caller.writer.write(waiting)
        callers[2].writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(callers[2].reader.readuntil(b"retry: 1000\n\n"), 60)
        while len(api.control.waits) < 2:
            assert (await api.call("GET", "/health")).status == 200
        for path in ("/health", "/ready", "/metrics", "/v1/groups/billing/explain"):
            assert (await api.call("GET", path)).status == 200
        for _ in range(2):
            refused = await api.call("POST", "/v1/groups/billing/wait", {"members": 1})
            assert refused.problem == "too-many"
            assert "http.max.connections" in refused.value["detail"]
        assert (await api.call("GET", "/v1/ledger.jsonl")).problem == "too-many"
        await callers[0].__aexit__()
        while len(api.control.waits) == 2:
            assert (await api.call("GET", "/health")).status == 200
        assert (await api.call("POST", "/v1/groups/billing/wait", {"absent": ["bob"]})).status == 200
        for caller in callers[1:]:
            await caller.__aexit__()


async def test_what_fails_tells_the_log_and_nobody_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_api() as api:

        async def fail(*_: object) -> None:
            raise ZeroDivisionError("a secret of ours")

        monkeypatch.setattr(api.control.groups, "describe_group", fail)
        answer = await api.call("GET", "/v1/groups/billing")
        assert (answer.status, answer.problem) == (500, "internal")
        assert b"secret" not in answer.body
        assert b"Zero" not in answer.body
        assert (await api.call("GET", "/v1/groups")).status == 200
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.exc_info is not None for record in records] == [True]
    assert "a secret of ours" in caplog.text


async def test_while_groups_are_loading_they_cannot_be_asked_about(tmp_path: Path) -> None:
    async with serving_api(tmp_path):
        pass
    slow = SlowFiles("__consumer_offsets-0")
    async with serving_api(tmp_path, wait=False, files=slow) as api:
        await asyncio.to_thread(slow.is_asked.wait, 10)
        listed = await api.call("GET", "/v1/groups")
        described = [await api.call("GET", f"/v1/groups/{n}") for n in range(30)]
        changed = [await api.call("PUT", f"/v1/groups/{n}/offsets", RESET) for n in range(30)]
        assert (await api.call("GET", "/v1")).status == 200
        slow.may_open.set()
        await asyncio.wait_for(api.server.ready.wait(), 60)
        assert (listed.status, listed.problem) == (503, "loading")
        # The other partitions may have been read meanwhile.
        assert "loading" in {answer.problem for answer in described}
        assert 503 in {answer.status for answer in changed} <= {200, 503}
        assert (await api.call("GET", "/v1/groups")).status == 200
