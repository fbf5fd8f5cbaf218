"""The permission for a change: all combinations of listener, property, token, Host, Origin and content type."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from coordinator.config.config_errors import ConfigError
from coordinator.config.setting_sources import read_settings
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.http_access import ControlAccess, RequestOrigin, create_control_access, parse_host
from storage.files import OsFiles
from tests.free_ports import has_ipv6
from tests.http.api.api_port import Answer, Api, serving_api
from tests.interop.requirement import lacking

TOKEN: Final = "t0ken-of-the-team"
TOKENS: Final = (None, TOKEN, "wrong")
PATH: Final = "/v1/groups/billing/offsets"
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


class AccessCase(NamedTuple):
    """A listener with properties, and whether changes are let in without a token and with it ("" for yes)."""

    host: str
    properties: Mapping[str, str]
    without: str
    with_token: str


WITH_TOKEN: Final = {"control.token": TOKEN}
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACCESS_CASES: Final = {
    "loopback": AccessCase(LOOPBACK, {}, "", ""),
    "loopback true": AccessCase(LOOPBACK, {"control.enable": "true"}, "", ""),
    "loopback false": AccessCase(LOOPBACK, {"control.enable": "false"}, "control-off", "control-off"),
    "loopback open": AccessCase(LOOPBACK, {"control.enable": "open"}, "", ""),
    "loopback token": AccessCase(LOOPBACK, WITH_TOKEN, "bad-token", ""),
    "loopback true token": AccessCase(LOOPBACK, {**WITH_TOKEN, "control.enable": "true"}, "bad-token", ""),
    "loopback false token": AccessCase(
        LOOPBACK, {**WITH_TOKEN, "control.enable": "false"}, "control-off", "control-off"
    ),
    "authorizer": AccessCase(LOOPBACK, AUTHORIZER, "control-off", "control-off"),
    "authorizer token": AccessCase(LOOPBACK, {**AUTHORIZER, **WITH_TOKEN}, "bad-token", ""),
    "authorizer true": AccessCase(LOOPBACK, {**AUTHORIZER, "control.enable": "true"}, "", ""),
    "authorizer open": AccessCase(LOOPBACK, {**AUTHORIZER, "control.enable": "open"}, "", ""),
    "everywhere": AccessCase(EVERYWHERE, {}, "control-off", "control-off"),
    "everywhere authorizer token": AccessCase(EVERYWHERE, {**AUTHORIZER, **WITH_TOKEN}, "bad-token", ""),
    "everywhere false": AccessCase(EVERYWHERE, {"control.enable": "false"}, "control-off", "control-off"),
    "everywhere open": AccessCase(EVERYWHERE, {"control.enable": "open"}, "", ""),
    "everywhere token": AccessCase(EVERYWHERE, WITH_TOKEN, "bad-token", ""),
    "everywhere true token": AccessCase(
        EVERYWHERE, {**WITH_TOKEN, "control.enable": "true"}, "bad-token", ""
    ),
}
HOSTS: Final = {
    "127.0.0.1": True,
    "localhost:9080": True,
    "[::1]:9080": True,
    "team.example": True,  # control.hosts
    "TEAM.example:9080": True,
    "evil.example": False,
    "127.0.0.1.evil.example": False,
    "localhost:abc": False,
    "127.0.0.1:65536": False,
    "localhost:80:80": False,
    "[::1]9080": False,
    "::1": False,
    ":9080": False,
}
ADDRESSES: Final = ("10.1.2.3:9080", "[fd00::1]")
"""Somebody translates addresses in front of a port that is bound to all: these are as good as its own."""
TYPES: Final = {
    "application/json": True,
    "application/json; charset=utf-8": True,
    "text/plain": False,
    "application/x-www-form-urlencoded": False,
    "multipart/form-data; boundary=a": False,
    "application/jsonp": False,
    None: False,
}


def origins(host: str) -> Mapping[str | None, bool]:
    """Origins that a browser may name, and whether they are ours."""
    return {
        None: True,
        f"http://{host}": True,
        f"HTTP://{host}".upper(): True,
        "http://evil.example": False,
        f"http://{host}.evil.example": False,
        f"http://evil.example/{host}": False,
        f"ftp://{host}": False,
        "null": False,
        "": False,
    }


async def change(api: Api, **headers: str | None) -> Answer:
    """Asks to set an offset."""
    said = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return await api.call("PUT", PATH, data=b'{"offsets": {"orders-0": 41}}', headers=said)


async def is_changed(api: Api) -> bool:
    """Return whether the offset was set, and reset it."""
    if api.control.groups.find_group("billing") is None:
        return False
    await api.control.groups.delete_group("billing", None)
    return True


def outcome(answer: Answer) -> str:
    """Return the problem of a response, "" for success."""
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    return "" if answer.status == 200 else answer.problem


def requests(hosts: Iterable[str]) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """Yield host, Origin, token and content type of the changes that are sent over HTTP.

    Each host, origin and content type occurs with each outcome of the others.
    """
    for host in hosts:
        yield from ((host, f"http://{host}", token, "application/json") for token in TOKENS)
    yield from (("localhost", origin, TOKEN, "application/json") for origin in origins("localhost"))
    for host in ("localhost", "evil.example"):
        yield from ((host, None, token, content_type) for token in TOKENS for content_type in TYPES)


def decision(access: ControlAccess, host: str, origin: str | None, token: str | None) -> str:
    """Return the problem that refuses a change before its content is looked at, or ""."""
    caller = RequestOrigin(
        host=host,
        origin=origin,
        authorization=None if token is None else f"Bearer {token}",
        local_host=LOOPBACK,
    )
    try:
        access.check_sender(caller)
        access.check_permission(caller)
    except Problem as problem:
        return problem.kind.value[0]
    return ""


@pytest.mark.parametrize("case", ACCESS_CASES.values(), ids=ACCESS_CASES.keys())
async def test_every_way_in(case: AccessCase) -> None:
    properties = {"control.hosts": "other.example,Team.Example", **case.properties}
    hosts = dict(HOSTS) | dict.fromkeys(ADDRESSES, case.host == EVERYWHERE) | {"localhost": True}

    def expected(host: str, origin: str | None, token: str | None) -> str:
        if not (hosts[host] and origins(host)[origin]):
            return "foreign-host"
        return case.with_token if token == TOKEN else case.without

    async with serving_api(None, properties, host=case.host) as api:
        for host in hosts:
            for origin, token in product(origins(host), TOKENS):
                assert decision(api.access, host, origin, token) == expected(host, origin, token)
        for host, origin, token, content_type in requests(hosts):
            answer = await change(
                api,
                Host=host,
                Origin=origin,
                Authorization=None if token is None else f"Bearer {token}",
                Content_Type=content_type,
            )
            refused = expected(host, origin, token) or ("" if TYPES[content_type] else "not-json")
            assert outcome(answer) == refused, (host, origin, token, content_type)
            assert await is_changed(api) is (refused == ""), (host, origin, token, content_type)


IPV6_ACCESS_CASES: Final = {
    "loopback": AccessCase("::1", {}, "", ""),
    "loopback token": AccessCase("::1", WITH_TOKEN, "bad-token", ""),
    "everywhere": AccessCase("::", {}, "control-off", "control-off"),
    "everywhere open": AccessCase("::", {"control.enable": "open"}, "", ""),
    "everywhere token": AccessCase("::", WITH_TOKEN, "bad-token", ""),
}


@pytest.mark.parametrize("case", IPV6_ACCESS_CASES.values(), ids=IPV6_ACCESS_CASES.keys())
async def test_every_way_in_by_ipv6(case: AccessCase) -> None:
    if not has_ipv6():
        lacking("this machine has no IPv6")
    is_everywhere = case.host == "::"
    hosts = {
        "[::1]": True,
        "[0:0:0:0:0:0:0:1]:9080": True,
        "localhost": True,
        "127.0.0.1": True,
        "evil.example": False,
        "[::1].evil.example": False,
        "[fd00::1]:9080": is_everywhere,
        "[::ffff:10.1.2.3]": is_everywhere,
        "0.0.0.0:9080": is_everywhere,
        "[::]": is_everywhere,
    }
    async with serving_api(None, case.properties, host=case.host) as api:
        for host, is_own in hosts.items():
            for origin, is_ours in origins(host).items():
                for token in (None, TOKEN):
                    expected = case.with_token if token else case.without
                    expected = expected if is_own and is_ours else "foreign-host"
                    answer = await change(
                        api,
                        Host=host,
                        Origin=origin,
                        Authorization=None if token is None else f"Bearer {token}",
                        Content_Type="application/json",
                    )
                    assert outcome(answer) == expected, (host, origin, token)
                    assert await is_changed(api) is (expected == ""), (host, origin, token)


@pytest.mark.parametrize(
    ("own", "local", "host", "is_own"),
    [
        ("fd00::1", "fd00::1", "[fd00::1]:9080", True),
        ("fd00::1", "fd00::1", "[FD00:0:0:0::1]", True),
        ("fe80::1", "fe80::1%eth0", "[fe80::1]:9080", True),
        ("fd00::1", "fd00::1", "[fd00::2]", False),
        ("fd00::1", "fd00::1", "10.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", "10.0.0.1:9080", True),
        ("10.0.0.1", "10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "10.0.0.1", "10.0.0.1.evil.example", False),
        ("groupd.example", "10.0.0.1", "GROUPD.example", True),
        ("groupd.example", "10.0.0.1", "10.0.0.1", True),
        ("groupd.example", "10.0.0.1", "evil.example", False),
    ],
)
def test_an_address_is_ones_own_however_it_is_written(own: str, local: str, host: str, is_own: bool) -> None:
    access = ControlAccess(own_host=own, is_loopback=False, enable="open")
    caller = RequestOrigin(host=host, origin=None, authorization=None, local_host=local)
    if is_own:
        access.check_sender(caller)
        return
    with pytest.raises(Problem) as refused:
        access.check_sender(caller)
    assert refused.value.kind is ProblemKind.FOREIGN_HOST


@pytest.mark.parametrize("enable", ["auto", "true", "open"])
async def test_reading_is_open_to_all_but_foreign_names_of_this_machine(enable: str, tmp_path: Path) -> None:
    async with serving_api(tmp_path / "here", {"control.enable": enable}) as api:
        for host, is_own in HOSTS.items():
            answer = await api.call("GET", "/v1/groups", headers={"Host": host})
            is_named = host.lower().startswith("team.")
            assert (answer.status == 200) is (is_own and not is_named), host
            for path in ("/v1/nothing", "/v1", "/v1/openapi.json"):
                refused = await api.call("GET", path, headers={"Host": "evil.example"})
                assert refused.problem == "foreign-host"
    off = {"control.enable": "open" if enable == "open" else "auto"}
    async with serving_api(tmp_path / "all", off, host=EVERYWHERE) as api:
        for host in (*HOSTS, *ADDRESSES):
            answer = await api.call("GET", "/v1/groups", headers={"Host": host})
            assert (answer.status == 200) is (parse_host(host) is not None), host


@pytest.mark.parametrize("host", [LOOPBACK, EVERYWHERE])
@pytest.mark.parametrize(
    ("properties", "without", "with_token"),
    [
        ({}, "control-off", "control-off"),
        (WITH_TOKEN, "bad-token", ""),
        ({"control.enable": "false"}, "", ""),
        ({"control.enable": "open"}, "", ""),
    ],
)
async def test_reading_is_guarded_where_acls_guard_groups(
    host: str, properties: dict[str, str], without: str, with_token: str
) -> None:
    async with serving_api(None, {**AUTHORIZER, **properties}, host=host) as api:
        for token, expected in ((None, without), ("wrong", without), (TOKEN, with_token)):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            for path in ("/v1/groups", "/v1/topics", "/v1/board"):
                assert outcome(await api.call("GET", path, headers=headers)) == expected, (path, token)
            health = await api.call("GET", "/health", headers=headers)
            assert health.status == 200


@pytest.mark.parametrize("host", [LOOPBACK, EVERYWHERE])
async def test_a_malformed_host_is_refused_outside_of_the_api_as_well(host: str) -> None:
    async with serving_api(host=host) as api:
        for header in ("localhost", "localhost:9080", "localhost:"):
            assert (await api.call("GET", "/health", headers={"Host": header})).status == 200, header
        for header in ("localhost:abc", "localhost:65536", "[::1]9080"):
            assert (await api.call("GET", "/health", headers={"Host": header})).status == 421, header


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/v1/groups/billing"), ("POST", "/v1/groups/billing"), ("PUT", PATH), ("PATCH", "/v1/x")],
)
async def test_a_page_of_another_site_changes_nothing(method: str, path: str) -> None:
    """Requests that a foreign page can send without a CORS preflight, and requests that need one."""
    async with serving_api() as api:
        assert (await change(api, Content_Type="application/json")).status == 200
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
            for host in ("localhost:9080", "evil.example"):
                headers = {"Origin": "http://evil.example", "Content-Type": content_type, "Host": host}
                answer = await api.call(method, path, data=b'{"offsets":{"orders-0":1}}', headers=headers)
                assert answer.problem == "foreign-host"
        asked = await api.call(
            "OPTIONS",
            path,
            headers={"Origin": "http://evil.example", "Access-Control-Request-Method": method},
        )
        assert asked.problem == "foreign-host"
        assert not any(name.lower().startswith("access-control") for name in asked.headers)
        offsets = await api.call("GET", PATH)
        assert [one["offset"] for one in offsets.value["offsets"]] == [41]


async def test_the_token_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving_api(None, {"control.token": TOKEN}) as api:
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert (
                await change(api, Authorization=f"{scheme} {TOKEN}", Content_Type="application/json")
            ).status == 200
        for wrong in (
            f"Basic {TOKEN}",
            TOKEN,
            "Bearer",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            "Bearer é",
        ):
            answer = await change(api, Authorization=wrong, Content_Type="application/json")
            assert answer.problem == "bad-token"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert TOKEN not in answer.body.decode()
        described = {config.key.name: config for config in api.server.data_plane.broker_configs}[
            "control.token"
        ]
        assert described.is_sensitive
        assert described.value is None
        assert TOKEN not in repr(api.server.settings.config)
    assert TOKEN not in caplog.text
    assert "Refused PUT" in caplog.text


@pytest.mark.parametrize(
    ("properties", "host", "named"),
    [
        ({"control.enable": "true"}, EVERYWHERE, "control.enable"),
        ({"control.enable": "true"}, "groupd.example", "control.enable"),
        ({"control.enable": "open", "control.token": TOKEN}, LOOPBACK, "control.token"),
        ({"control.enable": "open", "control.token.file": "token"}, LOOPBACK, "control.token"),
        ({"control.token": TOKEN, "control.token.file": "token"}, LOOPBACK, "control.token.file"),
        ({"control.enable": "on"}, LOOPBACK, "control.enable"),
        ({"control.token": "two words"}, LOOPBACK, "control.token"),
    ],
)
def test_a_contradiction_stops_the_start(properties: dict[str, str], host: str, named: str) -> None:
    variables = {"KAFKA_" + name.replace(".", "_").upper(): value for name, value in properties.items()}
    settings = read_settings(environment=variables, flags={"http.listener": f"{host}:0"})
    with pytest.raises(ConfigError) as error:
        settings.parse()
    assert named in str(error.value)
    assert "KAFKA_CONTROL_" in str(error.value)
    assert TOKEN not in str(error.value)
    assert "two words" not in str(error.value)


def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    config = read_settings(options=(f"control.token.file={path}", "control.enable=true")).parse()
    for content in (None, b"", b" \n", b"two words", b"caf\xc3\xa9"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"control\.token\.file"):
            create_control_access(config, EVERYWHERE, [], OsFiles())
    path.write_text(f"{TOKEN}\n")
    assert create_control_access(config, EVERYWHERE, [], OsFiles()).token == TOKEN.encode()
