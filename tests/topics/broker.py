"""A data plane in a directory. Requests and responses pass through the codecs, as over the wire."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from coordinator.broker.server_settings import create_data_plane_config
from coordinator.config.properties import Config
from coordinator.core.outcome import Context, Now
from coordinator.core.response_status import BLOCKED, DeferredResponse, NoResponse
from coordinator.core.shared_types import Node
from coordinator.core.time_budget import UnlimitedBudget, run_in_one_step
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import Answer, TopicChange
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.codec import codec
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from storage.batch import encode_batch
from storage.data_directory import DataDirectory
from storage.files import Files, OsFiles
from storage.metadata_files import MetaProperties
from storage.record import Record
from tests.topics.stepped_request import SteppedRequest, SteppedWork
from tests.topics.versions import newest

NOW_MS = 1_800_000_000_000
NODE = Node(1, "127.0.0.1", 9092)
R = TypeVar("R")


class Broker:
    """One data plane and a clock that stands still until it is moved."""

    def __init__(
        self,
        path: str,
        config: Config | None = None,
        files: Files | None = None,
        explicit: Mapping[str, str] | None = None,
        journal_file_bytes: int = 0,
    ) -> None:
        """Open a broker in `path`.

        `explicit` are explicitly set properties by Kafka's names: the topic defaults. `journal_file_bytes` is the
        maximum size of a journal file; 0 writes no journal.
        """
        self.path = path
        self.config = create_data_plane_config(config or Config(), explicit or {})
        self.files = files or OsFiles()
        self.journal_file_bytes = journal_file_bytes
        self.now_ms = NOW_MS
        self.monotonic_ms = 0
        self.waiter = 0
        self.session_id = 0
        self.answer = Answer(BLOCKED)
        """The last answer, for the effects beside its response."""
        self.coordinator: Callable[[AddOrVerifyRequest], AddOrVerifyResult] = agrees
        """Who answers for the coordinators of transactions."""
        self.questions: list[AddOrVerifyRequest] = []
        """The requests to the coordinators."""
        self.open()

    def open(self) -> None:
        """Open the data directory."""
        meta = MetaProperties("cluster", 1, "directory")
        self.directory = DataDirectory.open(self.files, self.path, meta, self.journal_file_bytes)
        self.plane = DataPlane.open(self.directory, self.config, random_session_id=self._next_session_id)

    def _next_session_id(self) -> int:
        self.session_id += 1
        return self.session_id

    def stop(self) -> None:
        """A clean stop."""
        self.directory.close(self.plane.list_logs(), self.plane.list_failed_partitions())

    def crash(self) -> None:
        """Lets go of everything as a killed process does."""
        for log in self.plane.list_logs().values():
            log.close(clean=False)
        self.directory.abandon()

    def restart(self) -> None:
        """A clean stop and a start."""
        self.stop()
        self.open()

    def advance(self, milliseconds: int) -> None:
        """Moves both clocks."""
        self.now_ms += milliseconds
        self.monotonic_ms += milliseconds

    def apply_retention(self) -> Sequence[TopicChange]:
        """Delete the old segments. Return a change for each partition where the disk refused it."""
        return run_in_one_step(self.plane.apply_retention(self.now_ms, UnlimitedBudget()))

    # Asking

    def send(self, request: object, version: int | None = None) -> Answer:
        """What the data plane answers to a request as it arrives over the wire."""
        self.answer = self.plane.handle(*self._receive(request, version), self.now, self._ask)
        return self.answer

    def begin(
        self, request: object, version: int | None = None, work: SteppedWork | None = None
    ) -> SteppedRequest[Answer]:
        """Run a request that takes long to its first await."""
        answer = self.plane.begin_request(*self._receive(request, version), self.now)
        assert not isinstance(answer, Answer)
        return SteppedRequest(answer(work or self.create_work()))

    def create_work(self) -> SteppedWork:
        """Return work that stops at each await."""
        return SteppedWork(lambda: self.now, self._ask)

    def _receive(self, request: object, version: int | None) -> tuple[Any, Context]:
        at = newest(type(request)) if version is None else version
        wire = codec(type(request), at)
        self.waiter += 1
        context = Context(self.waiter, at, "test", "/127.0.0.1", node=NODE)
        return wire.decode(wire.encode(request)), context

    @property
    def now(self) -> Now:
        """What the clock shows."""
        return Now(self.monotonic_ms, self.now_ms)

    def _ask(self, question: AddOrVerifyRequest) -> AddOrVerifyResult:
        self.questions.append(question)
        return self.coordinator(question)

    def ask(self, request: object, response: type[R], version: int | None = None) -> R:
        """The response, which must come at once, as the client reads it."""
        answer = self.send(request, version)
        assert answer.response is not BLOCKED, "parked"
        assert not isinstance(answer.response, NoResponse | DeferredResponse), answer.response
        return self.received(answer.response, response, version)

    def received(self, message: object, response: type[R], version: int | None = None) -> R:
        """A message as the client reads it."""
        wire = codec(response, newest(response) if version is None else version)
        return cast("R", wire.decode(wire.encode(message)))

    # Shortcuts

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Creates a topic (configs with _ for .) and gives its id."""
        response = self.create_result(name, partitions, **configs)
        assert response.error_code == 0, response
        return cast("bytes", response.topic_id)

    def create_result(self, name: str, partitions: int = 1, **configs: str) -> Any:
        """What became of the creation of a topic."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        return self.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse).topics[0]

    def produce(
        self,
        topic: str,
        data: bytes | None,
        partition: int = 0,
        *,
        acks: int = -1,
        version: int = 12,
        transactional_id: str | None = None,
    ) -> PartitionProduceResponse:
        """What became of one batch."""
        request = produce_request(topic, data, partition, acks)
        request.transactional_id = transactional_id
        response = self.ask(request, ProduceResponse, version)
        return response.responses[0].partition_responses[0]

    def fill(self, topic: str, count: int, partition: int = 0, size: int = 1) -> None:
        """Produces so many batches of one record."""
        for _ in range(count):
            response = self.produce(topic, batch(values=[b"v" * size], time_ms=self.now_ms), partition)
            assert response.error_code == 0, response


def agrees(question: AddOrVerifyRequest) -> AddOrVerifyResult:
    """Accept every partition, as a coordinator with all of them."""
    return dict.fromkeys(question.partitions, ErrorCode.NONE)


def produce_request(topic: str, data: bytes | None, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """A request with one batch."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
        ],
    )


def batch(
    count: int = 1,
    *,
    time_ms: int = NOW_MS,
    key: bytes | None = b"k",
    values: Sequence[bytes] | None = None,
    codec: int = 0,
) -> bytes:
    """A batch as a plain producer sends it."""
    records = [Record(0, time_ms, key, value, ()) for value in values or [b"v"] * count]
    return encode_batch(records, leader_epoch=-1, codec=codec)


def sequenced(
    producer_id: int, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False
) -> bytes:
    """A batch as an idempotent producer sends it."""
    return encode_batch(
        [Record(0, NOW_MS, b"k", b"v", ()) for _ in range(count)],
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
