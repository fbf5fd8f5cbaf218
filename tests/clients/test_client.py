"""groupd-client against a daemon: the same for both forms."""

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import groupd_client
import pytest
from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka.admin import AdminClient
from groupd_client import (
    BadRequest,
    ClockStopped,
    Groupd,
    Namespace,
    NameTaken,
    NoSuchGroup,
    NoSuchMember,
    NoSuchNamespace,
    NotMet,
    Problem,
    Unreachable,
)
from groupd_client.asynchronous import AsyncGroupd, AsyncNamespace
from groupd_client.asynchronous_group import (
    AsyncClock,
    AsyncFault,
    AsyncGroup,
    AsyncLedger,
    AsyncMember,
    AsyncStandIn,
)
from groupd_client.group import Clock, Fault, Group, Ledger, Member, StandIn
from pytest_groupd.daemon import Daemon

from release.generate_client import is_same_code, read_stale
from tests.librdkafka import poll_until_assigned


def expires_quietly(group: Group, client_id: str) -> None:
    """Raises NotMet."""
    with group.no_rebalance():
        group.member(client_id).expire()
        group.wait(rebalanced={}, after=group.ledger[-1].seq)


def test_a_group_is_waited_for_looked_at_and_changed(broker: Namespace) -> None:
    group = broker.group("billing")
    assert (group.state, list(group.ledger)) == ("Dead", [])
    alice, bob = (group.stand_in(name, ["orders"]) for name in ("alice", "bob"))
    met = group.wait(state="Stable", members={"min": 2, "max": 2}, owned=["orders"], clients=["alice"])
    assert met.waited_ms >= 0
    assert sorted(member.client_id for member in group.members) == ["alice", "bob"]
    with pytest.raises(NotMet):
        group.check(members=3)
    bob.stall()
    carol = group.stand_in("carol", ["orders"])
    group.wait(state="PreparingRebalance")
    with pytest.raises(ClockStopped):
        group.clock.advance("10m", settle="100ms")
    group.clock.advance("10m", silent=["bob"])
    group.wait(state="Stable", clients=["alice", "carol"], absent=["bob"], owned=["orders"])
    carol.leave()
    group.wait(members=1, owned=["orders"])
    assert group.ledger[-1].cause == "member left"
    with pytest.raises(NotMet) as broken:
        expires_quietly(group, "alice")
    assert "alice" in str(broken.value)
    alice.leave()
    group.wait(state="Empty")
    with group.no_rebalance():
        group.set_offsets({"orders-0": 0})
    assert group.committed() == {"orders-0": 0}
    group.delete()
    for nobodys in (lambda: group.description, lambda: group.offsets, lambda: group.member("x").expire()):
        with pytest.raises((NoSuchGroup, NoSuchMember)):
            nobodys()


async def test_the_same_without_waiting_threads(daemon: Daemon) -> None:
    async with AsyncGroupd(daemon.url) as groupd, await groupd.namespace(topics={"orders": 6}) as broker:
        group = broker.group("billing")
        assert (await group.state(), await group.ledger()) == ("Dead", [])
        one = await group.stand_in("alice", ["orders"])
        await group.wait(state="Stable", members=1, owned=["orders"])
        with pytest.raises(NotMet):
            await group.check(members=2)
        hold = {"at": "request", "hold": True}
        async with broker.fault(match={"api": "Heartbeat"}, do=hold) as fault:
            assert (await fault.status()).hit == 0
        fault = await broker.fault("slow", match={"api": "Heartbeat"}, do=hold)
        assert (await fault.release()).released == 0
        await fault.remove()
        await fault.remove()
        assert [member.client_id for member in await group.members()] == ["alice"]
        assert [stand_in.client_id for stand_in in await group.stand_ins()] == ["alice"]
        assert "member joined" in await group.ledger().text()
        async with group.no_rebalance():
            await group.clock.advance("1h")
        await group.member("alice").expire()
        await group.wait(state="Stable", members=1, generation={"min": 2})
        assert (await groupd.bootstrap()).startswith("127.0.0.1:")
        assert (await one.leave()).state == "left"
        assert [topic.name for topic in await broker.topics()] == ["orders"]
        await broker.reset()
        assert await broker.groups() == []
    async with AsyncGroupd(daemon.url) as groupd:
        with pytest.raises(NoSuchNamespace):
            await groupd.open_namespace(broker.name)


def test_a_group_stays_empty_after_its_last_member_has_died(broker: Namespace) -> None:
    group = broker.group("billing")
    alice = group.stand_in("alice", ["orders"])
    group.wait(state="Stable")
    alice.stall()
    group.clock.advance("45s", silent=["alice"])
    group.wait(state="Empty")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = admin.describe_consumer_groups(["billing"])["billing"].result(60)
    assert described.state is ConsumerGroupState.EMPTY
    assert group.expire_offsets("+0s").group == "deleted"
    assert group.state == "Dead"


def test_a_removed_group_says_when_and_why(broker: Namespace) -> None:
    group = broker.group("billing")
    group.stand_in("alice", ["orders"])
    group.wait(state="Stable")
    assert group.explain().removed is None
    broker.reset()
    assert group.explain().removed.reason == "namespace reset"
    group.set_offsets({"orders-0": 0})
    assert group.expire_offsets("+8d").group == "deleted"
    with pytest.raises(NotMet, match=r"removed at .* ago: .*expired") as unmet:
        group.wait(state="Stable", within="0s")
    assert unmet.value.fields.removed.reason == "offsets expired"
    with pytest.raises(NoSuchGroup, match="removed at") as unknown:
        _ = group.description
    assert unknown.value.fields.removed.at_ms == group.explain().removed.at_ms
    assert [each.group_id for each in broker.call("GET", "groups").removed] == ["billing"]


def test_a_clients_request_is_held_and_let_go(broker: Namespace) -> None:
    hold = {"at": "request", "hold": True}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing", "client.id": "alice"})
    try:
        with broker.fault("slow", match={"api": "JoinGroup", "client_id": "alice"}, do=hold) as fault:
            consumer.subscribe(["orders"])
            consumer.poll(0)
            assert fault.wait(hit=1, within="60s").holding == 1
            assert broker.group("billing").state == "Dead"
        broker.group("billing").wait(state="Stable", members=1, within="60s")
        poll_until_assigned(consumer)
    finally:
        consumer.close()


def test_namespaces_are_apart_and_go(daemon: Daemon) -> None:
    with daemon.namespace("mine", config={"group.max.size": 1, "auto.create.topics.enable": False}) as mine:
        assert mine.bootstrap in [each.bootstrap for each in daemon.namespaces()]
        with pytest.raises(NameTaken):
            daemon.namespace("mine")
        mine.topic("orders", 2)
        group = mine.group("billing")
        for name in ("a", "b"):
            group.stand_in(name, ["orders"])
        group.wait(state="Stable", members=1, within="60s")
        mine.advertise(PLAINTEXT="broker.example:1")
        assert mine.bootstrap == daemon.open_namespace("mine").bootstrap == "broker.example:1"
    with pytest.raises(NoSuchNamespace):
        mine.topics()
    with pytest.raises(BadRequest) as wrong:
        daemon.namespace(config={"listeners": "PLAINTEXT://:1"})
    assert "listeners" in str(wrong.value)


async def test_a_misspelt_name_is_answered_with_the_nearest(daemon: Daemon, broker: Namespace) -> None:
    match = {"api": "SyncGruop"}
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: broker.fault(match=match, do={"at": "request", "hold": True}), "SyncGroup"),
        (
            lambda: broker.fault(do={"at": "request", "error": "REBALANCE_IN_PROGRES"}),
            "REBALANCE_IN_PROGRESS",
        ),
        (lambda: broker.fault(use="not-cordinator"), "not-coordinator"),
        (lambda: broker.group("billing").wait(sate="Stable"), "state"),  # type: ignore[call-arg]
        (lambda: broker.group("billing").wait(state="Stabel"), "Stable"),
        (lambda: broker.violations(oracle="flaping"), "flapping"),
        (lambda: daemon.namespace(config={"group.max.sise": 3}), "group.max.size"),
    ]
    for mistake, meant in mistakes:
        with pytest.raises(BadRequest, match=re.escape(f"did you mean {meant}?")):
            mistake()
    with pytest.raises(Problem, match=re.escape("did you mean retention.ms?")):
        broker.topic("payments", config={"retention.sm": "1"})
    async with AsyncGroupd(daemon.url) as groupd:
        with pytest.raises(BadRequest, match=re.escape("did you mean SyncGroup?")):
            async with groupd.fault(match=match, do={"at": "request", "hold": True}):
                pass


async def test_empty_lists_and_objects_are_no_condition(daemon: Daemon, broker: Namespace) -> None:
    empty: dict[str, Any] = {"clients": (), "absent": set(), "owned": [], "owner": {}, "committed": {}}
    broker.group("billing").wait(absent=[], within="1s")
    broker.group("billing").check(**empty, state="Dead", topics=[])
    with broker.fault(match={}, do={"at": "request", "hold": True}) as fault:
        assert fault.release().released == 0
    with broker.fault(match={"client_id": [], "api": []}, do={"at": "request", "hold": True}):
        pass
    broker.call("DELETE", "faults", body={})
    broker.call("POST", "namespaces", broker.name, "reset", body={})
    async with AsyncGroupd(daemon.url) as groupd:
        await groupd.group("billing").wait(absent=[], within="1s")
        await groupd.group("billing").check(**empty)
        await groupd.call("DELETE", "faults", body={})


class _Stranger(BaseHTTPRequestHandler):
    """Another program, or a groupd of another time."""

    said: tuple[int, str, bytes]

    def do_GET(self) -> None:
        status, kind, body = self.said
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *args: Any) -> None:
        """Says nothing of it."""


OLD = b'{"type": "urn:groupd:no-such-path", "title": "", "status": 404, "detail": "There is no /v1/namespaces."}'


@pytest.mark.parametrize(
    "said",
    [
        (200, "text/html", b"<h1>It works</h1>"),
        (200, "application/json", b"{"),
        (404, "application/problem+json", OLD),
        (502, "text/plain", b""),
        (302, "text/plain", b""),
    ],
    ids=["html", "broken", "old", "gateway", "redirect"],
)
async def test_whoever_is_no_groupd_of_ours_is_told_apart(said: tuple[int, str, bytes]) -> None:
    stranger = type("Stranger", (_Stranger,), {"said": said})
    with HTTPServer(("127.0.0.1", 0), stranger) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with Groupd(url) as groupd, pytest.raises(Unreachable) as sync:
                groupd.namespaces()
            async with AsyncGroupd(url) as groupd_:
                with pytest.raises(Unreachable) as not_sync:
                    await groupd_.namespaces()
        finally:
            server.shutdown()
            serving.join()
    assert str(sync.value) == str(not_sync.value)
    assert groupd_client.__version__ in str(sync.value)
    with Groupd(url) as groupd, pytest.raises(Unreachable, match="groupd serve"):
        groupd.namespaces()


def test_the_token_opens_what_it_should() -> None:
    with Groupd("localhost:1/", token="secret", actor="größe") as groupd:
        assert groupd.url == "http://localhost:1"
        for text in ("ftp://a", "http://"):
            with pytest.raises(ValueError, match="URL"):
                Groupd(text)


@pytest.mark.parametrize(
    ("sync", "not_sync"),
    [
        (Groupd, AsyncGroupd),
        (Namespace, AsyncNamespace),
        (Group, AsyncGroup),
        (Ledger, AsyncLedger),
        (Member, AsyncMember),
        (Clock, AsyncClock),
        (StandIn, AsyncStandIn),
        (Fault, AsyncFault),
    ],
    ids=lambda each: each.__name__,
)
def test_both_forms_offer_the_same(sync: type, not_sync: type) -> None:
    def public(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")} - {"count", "index"}  # of a sequence

    assert public(sync) == public(not_sync)


def test_the_synchronous_client_is_the_written_one() -> None:
    assert not read_stale(), "run python -m release.generate_client"


@pytest.mark.parametrize("quoted", ["f'{names[\"a\"]}'", "f\"{names['a']}\"", 'f"""{names[\'a\']}"""'])
def test_a_written_module_is_the_same_for_each_version_of_python(quoted: str) -> None:
    """`ast.unparse` of Python 3.12 and later chooses other quotes for f-strings."""
    written = "name = f\"{names['a']}\"\n"
    assert is_same_code(f"name = {quoted}\n", written)
    assert not is_same_code(f"other = {quoted}\n", written)
