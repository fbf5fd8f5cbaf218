"""Runs a transcript of transactions: comments, commands and the outcomes of the core, as in `tests/scenarios`.

    # A comment, in the reader's words.
    > init A tid=payments timeout=10s
      event Initialized payments producer_id=1000 producer_epoch=0 timeout_ms=10s
      record payments Empty 1000/0
      A <- InitProducerId NONE producer_id=1000 producer_epoch=0

    init A [fresh] [tid=] [timeout=]      names the producer id and epoch that A has, unless it is fresh
    add A orders:0 orders:1 [level=2] · verify A orders:0 · commit A · abort A · describe A · list [State]
    markers A [orders:0]                  those are written, all without names; `refuse A` gives them up
    given A epoch=32766                   that is the epoch of what A has initialized last
    advance 10s · crash · config transaction_version=1

A producer keeps the id and epoch of its last response. `v` is the API version; `epoch` and `id` override the kept
values in one request. Producer ids are given at once, from 1000 on.
"""

import shlex
from collections.abc import Callable, Iterable

from msgspec.structs import asdict

from coordinator.core.outcome import Context, Fact, Now, Outcome, WorkDone
from coordinator.core.wire_name import get_wire_name
from coordinator.transactions.transaction import list_partitions
from coordinator.transactions.transaction_event_types import TransactionEvent
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    Request,
    TransactionTimerKey,
    WriteMarkers,
)
from coordinator.transactions.transaction_shard import TransactionShard
from coordinator.transactions.transaction_state_machine import WRITTEN
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.scenarios.client import milliseconds
from tests.scenarios.render import WALL_EPOCH_MS, reply, span
from tests.transactions.config import transaction_config

NEWEST = {"init": 5, "commit": 5, "abort": 5}
Partitions = list[tuple[str, int]]


class Producer:
    """What a client remembers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.transactional_id = "payments"
        self.producer_id, self.epoch = -1, -1


class Story:
    """One core, its clock, its log and the producers that talk to it."""

    def __init__(self) -> None:
        self.config = transaction_config()
        self.now_ms = 0
        self.log: list[Fact] = []
        self.timers: dict[TransactionTimerKey, int] = {}
        self.producers: dict[str, Producer] = {}
        self.asked: list[tuple[Producer, int]] = []
        self.markers: dict[str, WriteMarkers] = {}
        self.coordinator_epoch = 0
        self.next_id = 1000
        self.begin()

    def now(self) -> Now:
        """The story's time."""
        return Now(self.now_ms, WALL_EPOCH_MS + self.now_ms)

    def begin(self) -> list[str]:
        """Load the log into a new core."""
        self.coordinator_epoch += 1
        self.shard = TransactionShard(self.config, self.coordinator_epoch)
        self.timers.clear()
        self.markers.clear()
        for record in self.log:
            self.shard.replay(record)
        return self.follow(self.shard.on_loaded(self.now()))

    def follow(self, outcome: Outcome) -> list[str]:
        """Carry an outcome out as the runtime does; return its lines."""
        lines = [_event(event) for event in outcome.events] + [_record(fact) for fact in outcome.records]
        self.log.extend(outcome.records)
        for key, deadline in outcome.timers.items():
            self.timers.pop(key, None)
            if deadline is not None:
                self.timers[key] = deadline
        for message in outcome.messages:
            markers = message.request
            assert isinstance(markers, WriteMarkers)
            self.markers[markers.transactional_id] = markers
            lines.append(_markers(markers))
        for waiter, answer in outcome.replies:
            producer, version = self.asked[waiter - 1]
            if isinstance(answer, InitProducerIdResponse | EndTxnResponse) and answer.producer_id >= 0:
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
            lines.append(_reply(producer.name, answer, version))
        for work in outcome.work:
            self.next_id += 1
            lines += self.tell(WorkDone(work, self.next_id - 1))
        return lines

    def tell(self, request: Request) -> list[str]:
        """Handle an internal event, which has no response."""
        return self.follow(self.shard.handle(request, Context(0, 0, "", ""), self.now()))

    def command(self, line: str) -> list[str]:
        """One command's output."""
        verb, *words = shlex.split(line)
        special: dict[str, Callable[[list[str]], list[str]]] = {
            "config": self.configure,
            "given": self.given,
            "advance": self.advance,
            "crash": lambda _: self.begin(),
            "markers": self.write,
            "refuse": self.refuse,
        }
        lines = special[verb](words) if verb in special else self.request(verb, words)
        self.shard.check_invariants()
        return lines

    def configure(self, words: list[str]) -> list[str]:
        """`config transaction_version=1`: another configuration, as after a restart."""
        pairs = (word.partition("=") for word in words)
        self.config = transaction_config(**{name: int(text) for name, _, text in pairs})
        return self.begin()

    def given(self, words: list[str]) -> list[str]:
        """`given A epoch=32766`: so far an ordinary life has come, and now there is a restart."""
        producer = self.producer(words[0])
        producer.epoch = self.log[-1].value.producer_epoch = int(words[1].partition("=")[2])
        return self.begin()

    def advance(self, words: list[str]) -> list[str]:
        """`advance 3s`: timers fire on the way, each at its time; those of which nothing comes are not shown."""
        end, lines = self.now_ms + milliseconds(words[0]), []
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda key: self.timers[key])
            self.now_ms = self.timers.pop(key)
            fired = [f"  {line}" for line in self.follow(self.shard.fire_timer(key, self.now()))]
            lines += [f"at {span(self.now_ms)} {key}", *fired] if fired else []
        self.now_ms = end
        return lines

    def write(self, words: list[str]) -> list[str]:
        """`markers A orders:0`: they are written."""
        markers = self.markers[self.producer(words[0]).transactional_id]
        notification: MarkersWritten = markers.build_markers_written(
            _partitions(words[1:]) or markers.partitions
        )
        return self.tell(notification)

    def refuse(self, words: list[str]) -> list[str]:
        """`refuse A orders:0`: another coordinator has been there."""
        markers = self.markers[self.producer(words[0]).transactional_id]
        partitions = _partitions(words[1:]) or markers.partitions
        notification: MarkersRefused = markers.build_markers_refused(
            partitions, ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
        return self.tell(notification)

    def producer(self, name: str) -> Producer:
        """The one of that name, which need not have been named before."""
        return self.producers.setdefault(name, Producer(name))

    def request(self, verb: str, words: list[str]) -> list[str]:
        """Run `<verb> <producer> <arguments> <options>` and return its effects."""
        options = dict(word.split("=", 1) for word in words if "=" in word)
        arguments = [word for word in words if "=" not in word]
        producer = Producer("admin") if verb == "list" else self.producer(arguments.pop(0))
        producer.transactional_id = options.get("tid", producer.transactional_id)
        version = int(options.get("v", NEWEST.get(verb, 0)))
        self.asked.append((producer, version))
        context = Context(len(self.asked), version, producer.name, "/127.0.0.1")
        message = _request(verb, producer, arguments, options)
        return self.follow(self.shard.handle(message, context, self.now()))


def _request(verb: str, producer: Producer, arguments: list[str], options: dict[str, str]) -> Request:
    name = producer.transactional_id
    producer_id = int(options.get("id", producer.producer_id))
    epoch = int(options.get("epoch", producer.epoch))
    if verb == "init":
        is_fresh = "fresh" in arguments
        return InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=milliseconds(options.get("timeout", "60s")),
            producer_id=-1 if is_fresh else producer_id,
            producer_epoch=-1 if is_fresh else epoch,
        )
    if verb in ("add", "verify"):
        level = int(options.get("level", 0))
        return AddPartitions(name, producer_id, epoch, _partitions(arguments), verb == "verify", level)
    if verb in ("commit", "abort"):
        return EndTxnRequest(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=verb == "commit",
        )
    return DescribeTransaction(name) if verb == "describe" else ListTransactions(arguments)


def _partitions(words: Iterable[str]) -> Partitions:
    """`orders:0 orders:1`."""
    return [(topic, int(number)) for topic, _, number in (word.partition(":") for word in words)]


def _text(partitions: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{topic}:{number}" for topic, number in partitions)


def _event(event: TransactionEvent) -> str:
    words = ["event", get_wire_name(type(event))]
    for name, value in asdict(event).items():
        if name == "transactional_id":
            words.append(value)
        elif isinstance(value, ErrorCode):
            words.append(f"{name}={value.name}")
        elif value is not None and value is not False and value != "":
            words.append(f"{name}={span(value) if name.endswith('_ms') else value}")
    return " ".join(words)


def _record(fact: Fact) -> str:
    words = ["record", fact.key.transactional_id]
    if fact.value is None:
        return " ".join([*words, "gone"])
    value = fact.value
    words += [WRITTEN[value.transaction_status].value, f"{value.producer_id}/{value.producer_epoch}"]
    words += [f"then {value.next_producer_id}/0"] if value.next_producer_id >= 0 else []
    partitions = list_partitions(value)
    return " ".join([*words, *([_text(partitions)] if partitions else [])])


def _markers(markers: WriteMarkers) -> str:
    outcome = "COMMIT" if markers.is_committed else "ABORT"
    producer = f"{markers.producer_id}/{markers.producer_epoch}"
    return f"markers {outcome} {producer} coordinator={markers.coordinator_epoch} {_text(markers.partitions)}"


def _reply(name: str, answer: object, version: int) -> str:
    if isinstance(answer, AddPartitionsResult):
        codes = ", ".join(f"{topic}:{number} {code.name}" for (topic, number), code in answer.errors.items())
        return f"{name} <- PartitionsAdded {codes}"
    if isinstance(answer, DescribeTransactionsTransactionState):
        described = [f"{topic.topic}:{number}" for topic in answer.topics for number in topic.partitions]
        answer.topics = []
        shown = reply(name, DescribeTransactionsResponse(transaction_states=[answer]), 0)
        return f"{shown} {','.join(described)}".rstrip()
    return reply(name, answer, version)


def run(lines: Iterable[str]) -> list[str]:
    """The transcript with its comments and commands unchanged and the present outputs."""
    story, result = Story(), list[str]()
    for line in lines:
        if not line.startswith("  "):
            result.append(line)
        if line.startswith(">"):
            result += [f"  {output}" for output in story.command(line[1:])]
    return result
