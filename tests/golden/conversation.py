"""A conversation of the Python client with a daemon over HTTP, as JSON.

A proxy between both keeps each request with its answer. The conversation is held twice, each time with a daemon of
its own: values that differ between the two are volatile, and only their types are compared later.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import urllib3
from groupd_client import Groupd, GroupdError
from groupd_client.value import Value
from pytest_groupd.daemon import SpawnedDaemon

from tests.clients.command import COMMAND
from tests.golden.versions import write_json

FILE: Final = "http.json"
JSON: Final = ("application/json", "application/problem+json")
WORDS: Final = {"detail", "text", "title", "evidence", "message"}
"""Fields that hold sentences, which any version may word better."""
VOLATILE_ENDINGS: Final = (
    "_ms",
    "seq",
    "_at",
    "_bytes",
    "port",
    "member_id",
    "client_host",
    "bootstrap",
    "version",
)
"""Endings of fields that differ between machines and runs, even where two runs happen to agree."""

TIMED: Final = ("awaited_longest",)
"""Fields that depend on the response times of members."""

Exchange = dict[str, Any]
"""Of a request `method`, `path`, `accept`, `body`; of its answer `status`, `content_type`, `answer` and the places
that are `volatile` in it."""


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _refusal(act: Any) -> str:
    """The name of the exception that a call raises."""
    try:
        act()
    except GroupdError as error:
        return type(error).__name__
    raise AssertionError("nothing was raised")


def hold(groupd: Groupd) -> dict[str, Any]:
    """Send the requests of the conversation, and return the client's view of the responses."""
    seen: dict[str, Any] = {}
    config = {"group.initial.rebalance.delay.ms": 0}
    with groupd.namespace("golden", topics={"orders": 4, "payments": 1}, config=config) as broker:
        seen["namespace"] = [broker.name, broker.bootstrap, len(groupd.namespaces())]
        seen["name taken"] = _refusal(lambda: groupd.namespace("golden"))
        seen["bad property"] = _refusal(lambda: groupd.namespace("other", config={"no.such": "1"}))
        broker.topic("audit", 2, {"cleanup.policy": "compact"})
        broker.delete_topic("payments")
        seen["topics"] = sorted(topic.name for topic in broker.topics())
        _classic_group(broker, seen)
        _consumer_group(broker, seen)
        _faults(broker, seen)
        seen["groups"] = sorted([group.group_id, group.state] for group in broker.groups())
        seen["violations"] = len(broker.violations())
        seen["recording"] = _plain(broker.call("GET", "recordings"))
        broker.reset()
        seen["after reset"] = [len(broker.groups()), sorted(topic.name for topic in broker.topics())]
    seen["gone"] = _refusal(lambda: groupd.open_namespace("golden"))
    return seen


def _classic_group(broker: Any, seen: dict[str, Any]) -> None:
    group = broker.group("billing")
    seen["unknown group"] = [group.state, len(group.ledger), _refusal(lambda: group.offsets)]
    alice = group.stand_in("alice", ["orders"])
    group.wait(state="Stable", members=1, owned=["orders"])
    bob = group.stand_in("bob", ["orders"], group_instance_id="bob-1")
    met = group.wait(state="Stable", members={"min": 2, "max": 2}, owned=["orders"], clients=["alice"])
    seen["wait"] = sorted(met)
    seen["check"] = [sorted(group.check(members=2)), _refusal(lambda: group.check(members=3))]
    seen["description"] = _plain(group.description)
    seen["member"] = _plain(group.member("bob-1").description)
    seen["ledger"] = [[entry.cause, entry.generation_id] for entry in group.ledger]
    seen["explain"] = sorted(group.explain())
    seen["clock"] = _plain(group.clock.freeze())
    group.clock.run()
    group.clock.reset()
    bob.stall()
    group.clock.advance("10m", silent=["bob"])
    group.wait(state="Stable", members=1, clients=["alice"], absent=["bob"])
    seen["stand-ins"] = sorted([one.client_id, one.state] for one in group.stand_ins())
    bob.remove()
    alice.leave()
    group.wait(members=0)
    group.set_offsets({"orders-0": 3, "orders-1": 0})
    seen["offsets"] = [group.committed(), _plain(group.offsets)]
    seen["dry run"] = _plain(group.set_offsets({"orders-0": 1}, dry_run=True))
    seen["expired"] = _plain(group.expire_offsets("+8d"))


def _consumer_group(broker: Any, seen: dict[str, Any]) -> None:
    group = broker.group("shipping")
    carol = group.stand_in("carol", ["orders", "audit"], group_protocol="consumer")
    group.wait(state="Stable", members=1, owned=["orders", "audit"])
    seen["consumer group"] = _plain(group.description)
    group.member("carol").expire()
    group.wait(state="Stable", members=1, owned=["orders", "audit"])
    carol.remove()
    group.wait(members=0)


def _faults(broker: Any, seen: dict[str, Any]) -> None:
    with broker.fault("slow", match={"api": "JoinGroup"}, do={"at": "request", "hold": True}) as fault:
        seen["fault"] = _plain(fault.status)
        seen["no hit"] = _refusal(lambda: fault.wait(hit=1, within="1ms"))
    seen["bad fault"] = _refusal(lambda: broker.fault(match={"api": "NoSuchApi"}, do={"close": True}))


class _Proxy(BaseHTTPRequestHandler):
    """Passes each request on and notes it with its answer."""

    protocol_version = "HTTP/1.1"
    daemon_url: str
    pool: urllib3.PoolManager
    exchanges: list[Exchange]

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        headers = {
            name: self.headers[name]
            for name in ("Accept", "Content-Type")
            if self.headers.get(name) is not None
        }
        answer = self.pool.request(
            self.command, self.daemon_url + self.path, body=body or None, headers=headers, redirect=False
        )
        content_type = answer.headers.get("Content-Type", "").partition(";")[0]
        self.exchanges.append(
            {
                "method": self.command,
                "path": self.path,
                "accept": headers.get("Accept"),
                "body": json.loads(body) if body else None,
                "status": answer.status,
                "content_type": content_type,
                "answer": json.loads(answer.data) if content_type in JSON else answer.data.decode(),
            }
        )
        _answer(self, answer.status, content_type, answer.data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _pass_on  # noqa: N815 names of http.server

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _answer(handler: BaseHTTPRequestHandler, status: int, content_type: str, data: bytes) -> None:
    handler.send_response(status)
    if content_type:
        handler.send_header("Content-Type", content_type)
    if status != 204:
        handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL of a server that has ended when the context has."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def stub_server(exchanges: list[Exchange]) -> Iterator[str]:
    """A server that gives the recorded answers: to equal requests in their order, the last one again and again."""
    waiting: defaultdict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        waiting[exchange["method"], exchange["path"]].append(exchange)

    class Stub(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answers = waiting[self.command, self.path]
            if not answers:
                problem = {"type": "urn:groupd:no-such-path", "title": "not recorded", "status": 404}
                _answer(self, 404, JSON[1], json.dumps(problem).encode())
                return
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            text = found["answer"]
            data = json.dumps(text) if found["content_type"] in JSON else text
            _answer(self, found["status"], found["content_type"], data.encode())

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _reply  # noqa: N815 names of http.server

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with _serving(Stub) as url:
        yield url


def _record() -> tuple[list[Exchange], dict[str, Any]]:
    exchanges: list[Exchange] = []
    with SpawnedDaemon(COMMAND, []) as daemon, urllib3.PoolManager(retries=False) as pool:
        daemon.ensure()
        fields = {"daemon_url": daemon.url, "pool": pool, "exchanges": exchanges}
        with _serving(type("Proxy", (_Proxy,), fields)) as url, Groupd(url) as client:
            return exchanges, hold(client)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{place}/{name}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _leaves(each, f"{place}/{index}")
    else:
        yield place, value


def is_volatile(place: str) -> bool:
    """Whether the value of a field depends on the machine, by the field's name."""
    names = [name for name in place.split("/") if not name.isdigit()]
    return bool(names) and names[-1].endswith(VOLATILE_ENDINGS)


def generate(version: str) -> None:
    """Replaces the conversation."""
    exchanges, seen = _record()
    again, _ = _record()
    assert [_request(one) for one in exchanges] == [_request(one) for one in again]
    for one, other in zip(exchanges, again, strict=True):
        others = dict(_leaves(other["answer"]))
        one["volatile"] = [
            place
            for place, value in _leaves(one["answer"])
            if others.get(place, ...) != value or is_volatile(place)
        ]
    write_json(version, FILE, {"exchanges": exchanges, "seen": seen})


def _request(exchange: Exchange) -> tuple[Any, ...]:
    return exchange["method"], exchange["path"], exchange["body"], exchange["status"]
