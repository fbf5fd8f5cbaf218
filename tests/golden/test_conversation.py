"""A later daemon answers an earlier client, and a later client takes the answers of an earlier daemon."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import urllib3
from groupd_client import Groupd
from pytest_groupd.daemon import SpawnedDaemon

from tests.clients.command import COMMAND
from tests.golden.conversation import FILE, JSON, TIMED, WORDS, hold, stub_server
from tests.golden.versions import VERSIONS, read_json


def differences(recorded: Any, answered: Any, volatile: set[str], place: str = "") -> list[str]:
    """Where an answer has not what the recorded one has: its fields with their values, or with their types where
    these are volatile or sentences. It may have more fields. A duration may be null, if nothing was measured."""
    name = place.rpartition("/")[2]
    if name in TIMED or (name.endswith("_ms") and answered is None):
        return []
    if isinstance(recorded, Mapping):
        if not isinstance(answered, Mapping):
            return [place]
        return [
            found
            for name, value in recorded.items()
            for found in (
                differences(value, answered[name], volatile, f"{place}/{name}")
                if name in answered
                else [f"{place}/{name}"]
            )
        ]
    if isinstance(recorded, list) and isinstance(answered, list):
        if len(recorded) != len(answered):
            return [place]
        return [
            found
            for index, (one, other) in enumerate(zip(recorded, answered, strict=True))
            for found in differences(one, other, volatile, f"{place}/{index}")
        ]
    is_open = place in volatile or name in WORDS
    is_same = recorded == answered or (is_open and (recorded is None or type(recorded) is type(answered)))
    return [] if is_same else [f"{place}: {recorded!r} became {answered!r}"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_daemon_answers_an_earlier_client(version: str) -> None:
    with SpawnedDaemon(COMMAND, []) as daemon, urllib3.PoolManager(retries=False) as pool:
        daemon.ensure()
        for number, exchange in enumerate(read_json(version, FILE)["exchanges"]):
            body = None if exchange["body"] is None else json.dumps(exchange["body"]).encode()
            headers = {"Accept": exchange["accept"]}
            if exchange["method"] != "GET":
                headers["Content-Type"] = JSON[0]
            answer = pool.request(
                exchange["method"], daemon.url + exchange["path"], body=body, headers=headers, redirect=False
            )
            description = f"request {number}: {exchange['method']} {exchange['path']}: {answer.data.decode()}"
            assert answer.status == exchange["status"], description
            content_type = answer.headers.get("Content-Type", "").partition(";")[0]
            assert content_type == exchange["content_type"], description
            if content_type in JSON:
                volatile = set(exchange["volatile"])
                assert differences(exchange["answer"], json.loads(answer.data), volatile) == [], description


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_takes_the_answers_of_an_earlier_daemon(version: str) -> None:
    recorded = read_json(version, FILE)
    with stub_server(recorded["exchanges"]) as url, Groupd(url) as client:
        assert json.loads(json.dumps(hold(client))) == recorded["seen"]


def test_a_missing_field_a_changed_value_and_another_type_are_differences() -> None:
    recorded = {"id": "a", "at_ms": 5, "title": "old words", "list": [{"x": 1}]}
    assert differences(recorded, recorded | {"new": 1, "at_ms": 6, "title": "new words"}, {"/at_ms"}) == []
    assert differences(recorded, {"id": "a", "at_ms": 5, "title": "t"}, set()) == ["/list"]
    assert differences(recorded, recorded | {"list": []}, set()) == ["/list"]
    assert len(differences(recorded, recorded | {"at_ms": "6"}, {"/at_ms"})) == 1
    assert len(differences(recorded, recorded | {"list": [{"x": 2}]}, set())) == 1
