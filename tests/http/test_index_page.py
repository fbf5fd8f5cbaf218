"""The response to `/` for a browser and for a terminal."""

import pytest

from coordinator import __version__
from coordinator.broker.server_view import ListenerOverview, ServerOverview, ServerView
from coordinator.config.listeners import Address
from coordinator.http.http_service import PATHS
from coordinator.http.index_page import format_index
from tests.broker.harness import IN_MEMORY, settings, start
from tests.http.conftest import Http

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
CURL = {"Accept": "*/*"}


def something(**changed: object) -> ServerOverview:
    here = ServerOverview(
        version="1.2.3",
        data_dir="/data",
        standing="ready",
        listeners=[ListenerOverview("PLAINTEXT", Address("127.0.0.1", 9092), Address("localhost", 9092))],
        topics=4,
        groups=7,
        partitions=50,
        loaded_partitions=50,
        failed_partitions=0,
        transactional_ids=None,
        failed_transaction_partitions=0,
    )
    return here._replace(**changed)  # type: ignore[arg-type]


async def test_curl_gets_text(http: Http) -> None:
    answer = await http.get("/", headers=CURL)
    assert answer.content_type == "text/plain"
    lines = (await answer.text()).splitlines()
    assert lines[0] == f"groupd {__version__}, ready"
    assert f"Data directory: {IN_MEMORY}" in lines
    assert "Topics: 1" in lines
    assert "Groups: 1" in lines
    for path in PATHS:
        assert any(line.startswith(path) for line in lines)


async def test_a_browser_gets_the_page(http: Http) -> None:
    answer = await http.get("/", headers=BROWSER)
    assert answer.content_type == "text/html"
    assert answer.headers["Vary"] == "Accept"


@pytest.mark.parametrize("path", ["/nothing", "/health/", "/metrics/more", "/%3Cb%3E%0a"])
async def test_another_path_is_told_those_that_there_are(http: Http, path: str) -> None:
    answer = await http.get(path)
    text = await answer.text()
    assert answer.status == 404
    assert all(known in text for known in PATHS)
    assert "<b>" not in text


async def test_another_method_is_not_another_path(http: Http) -> None:
    assert (await http.post("/health")).status == 405
    assert (await http.head("/")).status == 200


def test_hostile_text_stays_text() -> None:
    name = "\x1b[31m\n"
    here = something(
        data_dir=f"/{name}", listeners=[ListenerOverview("A", Address(name, 1), Address(name, 2))]
    )
    text = format_index(here, PATHS)
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(format_index(something(), PATHS).splitlines())


def test_every_listener_is_there_with_what_it_advertises() -> None:
    listeners = [
        ListenerOverview("INSIDE", Address("0.0.0.0", 19092), Address("groupd", 19092)),
        ListenerOverview("HOST", Address("", 9092), None),
    ]
    text = format_index(something(listeners=listeners), PATHS)
    assert "0.0.0.0:19092, advertised as groupd:19092" in text
    assert "the address that each client connected to" in text


def test_while_it_loads_it_says_how_far_it_is() -> None:
    loading = something(standing="loading", loaded_partitions=12)
    assert "loading" in format_index(loading, PATHS)
    assert "7, from 12 of 50 partitions" in format_index(loading, PATHS)
    assert "2 could not be read" in format_index(something(loaded_partitions=48, failed_partitions=2), PATHS)


def test_transactional_ids_are_told_of_once_somebody_has_asked_for_their_coordinator() -> None:
    assert "Transactional" not in format_index(something(), PATHS)
    assert "Transactional ids: 0\n" in format_index(something(transactional_ids=0), PATHS)
    failed = something(transactional_ids=5, failed_transaction_partitions=2)
    assert "Transactional ids: 5 (2 partitions could not be read)" in format_index(failed, PATHS)


async def test_what_a_server_is_while_it_starts_and_ends() -> None:
    server = await start(settings(None, topics=[("orders", 1), ("payments", 1)]), wait=False)
    first = ServerView(server).create_overview()
    assert (first.standing, first.topics, first.partitions) == ("loading", 2, 3)
    await server.ready.wait()
    second = ServerView(server).create_overview()
    assert (second.standing, second.loaded_partitions, second.groups) == ("ready", 3, 0)
    await server.close()
    assert ServerView(server).create_overview().standing == "closing"
