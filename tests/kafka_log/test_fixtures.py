"""groupd on the data directory of a real broker: the same offsets, groups and members, and nothing of it lost."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.partitioner import partition_for
from storage.batch import LOG_OVERHEAD, read_header, walk_batches
from storage.compression import CODEC_NAMES
from storage.topic_partition import uuid_to_text
from tests.broker.server_thread import ServerThread
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import CLUSTER_ID
from tests.kafka_log.committed import read_committed
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import commit_where_it_reads
from tests.kafka_log.consumer_members import go_on
from tests.kafka_log.fixture import NAMES, OFFSETS_PARTITION, expected, unpack
from tests.kafka_log.view import CONSUMER, OFFSETS_KEPT_BY, View, topics, view

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Which scenario of the real broker."""
    captured: str = request.param
    return captured


@pytest.fixture
def data(name: str, tmp_path: Path) -> Path:
    """A copy of the broker's data directory."""
    directory = tmp_path / "data"
    directory.mkdir()
    unpack(name, str(directory))
    return directory


@pytest.fixture
def daemon(data: Path) -> Iterator[ServerThread]:
    """groupd on that directory."""
    daemon = ServerThread(str(data))
    try:
        yield daemon
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


class StandingServer(NamedTuple):
    """A server that several tests read, and the groups that it served when it was started.

    The members of these groups send no heartbeats: their sessions expire after 45 seconds.
    """

    server: ServerThread
    groups_at_start: View


@pytest.fixture(scope="module")
def standing_servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], StandingServer]]:
    """One server for each scenario, for all tests that only read."""
    servers: dict[str, StandingServer] = {}

    def server_of(name: str) -> StandingServer:
        if name not in servers:
            directory = tmp_path_factory.mktemp(name)
            unpack(name, str(directory))
            server = ServerThread(str(directory))
            servers[name] = StandingServer(server, ask(server))
        return servers[name]

    yield server_of
    for standing in servers.values():
        standing.server.stop()


@pytest.fixture
def standing_server(name: str, standing_servers: Callable[[str], StandingServer]) -> ServerThread:
    """groupd on a copy of the directory that other tests read, too."""
    return standing_servers(name).server


@pytest.fixture
def groups_at_start(name: str, standing_servers: Callable[[str], StandingServer]) -> View:
    """The groups that this server had when it was started."""
    return standing_servers(name).groups_at_start


def ask(daemon: Daemon | ServerThread) -> View:
    """What groupd serves now."""
    with Connection(daemon.bootstrap) as connection:
        return view(connection)


def of_groupd(served: View) -> View:
    """What of a broker's groups groupd serves: all but those of the protocols that it does not have."""
    return {name: group for name, group in served.items() if group["type"] in OFFSETS_KEPT_BY}


def comparable(groups: View, wanted: View) -> View:
    """Return groupd's answers, limited to the groups and fields of the expected ones."""
    chosen: View = {}
    for name, group in groups.items():
        chosen[name] = {key: group[key] for key in (wanted.get(name) or group)}
    return chosen


def batches(data: Path) -> Iterator[tuple[str, int, bytes]]:
    """Every batch of the offsets logs, read here without the log engine: partition, base offset, bytes."""
    for directory in sorted(data.iterdir()):
        if OFFSETS_PARTITION.fullmatch(directory.name):
            for segment in sorted(directory.glob("*.log")):
                content = segment.read_bytes()
                while content:
                    header = read_header(content)
                    size = header.batch_length + LOG_OVERHEAD
                    yield directory.name, header.base_offset, content[:size]
                    content = content[size:]


def commit(connection: Connection, group: str, topic: str, partition: int, offset: int) -> None:
    """Commit an offset as a client without membership."""
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata="by groupd"
                    )
                ],
            )
        ],
    )
    (answer,) = connection.call(request, 9).topics
    assert [part.error_code for part in answer.partitions] == [0], answer


def test_offsets_groups_members_and_generations_are_those_of_the_broker(
    name: str, groups_at_start: View
) -> None:
    wanted = of_groupd(expected(name)["served"])
    assert comparable(groups_at_start, wanted) == wanted


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_members_of_consumer_groups_go_on_where_the_broker_left_them(
    tmp_path: Path, how: signal.Signals
) -> None:
    """They heartbeat, commit, rejoin and revoke as required; no member loses a partition."""
    unpack("clean", str(tmp_path))
    daemon = Daemon(str(tmp_path))
    try:
        groups = [name for name, group in ask(daemon).items() if group["type"] == CONSUMER]
        for offset in (1000, 2000):
            with Connection(daemon.bootstrap) as connection:
                for group in groups:
                    commit_where_it_reads(connection, go_on(connection, group), group, offset)
            before = ask(daemon)
            daemon.restart(how)
            assert ask(daemon) == before
    finally:
        daemon.stop()
    conditions = {group["state"] for group in expected("clean")["served"].values() if "epochs" in group}
    assert conditions == {"Stable", "Reconciling", "Empty"}


def test_every_group_goes_on_in_its_generation(name: str, daemon: ServerThread) -> None:
    """A group without members shows its generation when one joins."""
    generations = expected(name)["log"]["generations"]
    served = ask(daemon)
    assert generations
    with Connection(daemon.bootstrap) as connection:
        for group, generation in generations.items():
            members = served[group]["members"].values()
            assert {member["generation"] for member in members} <= {generation}
            if not members:
                assert join(connection, group) == generation + 1


def join(connection: Connection, group: str) -> int:
    """Becomes the only member; the generation."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = connection.call(request, 3)
    assert joined.error_code == 0, joined
    generation: int = joined.generation_id
    return generation


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_the_broker_wrote_stays_beside_what_groupd_adds(
    name: str, data: Path, daemon: ServerThread, how: signal.Signals
) -> None:
    before = list(batches(data))
    wanted = of_groupd(expected(name)["served"])
    with Connection(daemon.bootstrap) as connection:
        for group in wanted:
            if not wanted[group].get("members"):  # others commit nothing without a member's id
                commit(connection, group, "orders", 0, 4711)
        commit(connection, "new-group", "orders", 1, 12)
    daemon.restart(how)
    served = ask(daemon)
    assert served["new-group"]["offsets"] == {"orders-1": [12, -1, "by groupd"]}
    for group, seen in wanted.items():
        if not seen.get("members"):
            seen["offsets"]["orders-0"] = [4711, -1, "by groupd"]
        assert comparable({group: served[group]}, wanted) == {group: seen}
    after = list(batches(data))
    assert set(before) <= set(after)
    assert len(after) > len(before)


def test_the_cluster_and_its_topics_keep_their_identity(standing_server: ServerThread) -> None:
    data = Path(standing_server.data_directory)
    ids = {
        directory.name.rpartition("-")[0]: (directory / "partition.metadata").read_text().split()[-1]
        for directory in data.iterdir()
        if (directory / "partition.metadata").exists() and not directory.name.endswith("-delete")
    }
    with Connection(standing_server.bootstrap) as connection:
        answer = connection.call(MetadataRequest(topics=None), 12)
    assert answer.cluster_id == CLUSTER_ID
    assert {topic.name: uuid_to_text(topic.topic_id) for topic in answer.topics} == {
        name: topic_id for name, topic_id in ids.items() if name != "__cluster_metadata"
    }


def test_topics_keep_their_partitions_and_properties(name: str, daemon: ServerThread) -> None:
    wanted = expected(name)["topics"]
    for how in (None, signal.SIGTERM):
        if how is not None:
            daemon.restart(how)
        with Connection(daemon.bootstrap) as connection:
            assert topics(connection) == wanted


def test_no_producer_gets_the_id_of_one_of_the_broker(standing_server: ServerThread) -> None:
    """Its first batch would be taken for one that the broker has."""
    recorded_ids = {
        header.producer_id
        for segment in Path(standing_server.data_directory).glob("[!_]*/*.log")
        for _, header in walk_batches(segment.read_bytes())
    }
    with Connection(standing_server.bootstrap) as connection:
        new_ids = connection.call(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4
        )
    assert new_ids.error_code == 0
    assert new_ids.producer_id > max(recorded_ids) + 1000, recorded_ids


def test_files_that_groupd_does_not_know_are_left_alone(data: Path, daemon: ServerThread) -> None:
    unknown = {
        path: path.read_bytes()
        for path in data.rglob("*")
        if path.is_file()
        and (path.suffix in (".snapshot", ".txnindex", ".checkpoint") or "__cluster_metadata" in str(path))
    }
    foreign = data / "lost+found" / "something"
    foreign.parent.mkdir()
    foreign.write_bytes(b"of somebody else")
    daemon.restart(signal.SIGTERM)
    assert unknown
    assert {path: path.read_bytes() for path in unknown} == unknown
    assert foreign.read_bytes() == b"of somebody else"


def test_the_captures_hold_what_they_are_kept_for() -> None:
    """Each scenario is worth its bytes only while these are in it."""
    clean, killed, compacted = (expected(name)["log"] for name in NAMES)
    assert {"3", "5", "6", "7", "8", "16", "11", "12"} <= clean["live_records"].keys()
    assert len(clean["leader_epochs"]) > 1
    assert expected("clean")["topics"]["latest"]["configs"]["cleanup.policy"] == "compact"
    assert killed["generations"].keys() == {"committing", "open-transaction", "static"}
    assert compacted["codecs"].keys() == set(CODEC_NAMES.values())
    assert compacted["delete_horizons"] > 0
    assert compacted["batches_without_records"] > 0


def test_clients_are_told_the_epoch_that_the_broker_led_in(standing_server: ServerThread) -> None:
    """A client that has seen an epoch takes no leader of an earlier one."""
    directory = Path(standing_server.data_directory)
    with Connection(standing_server.bootstrap) as connection:
        answer = connection.call(MetadataRequest(topics=None), 12)
    for topic in answer.topics:
        for partition in topic.partitions:
            epochs = (
                directory / f"{topic.name}-{partition.partition_index}/leader-epoch-checkpoint"
            ).read_text()
            assert partition.leader_epoch == int(epochs.splitlines()[-1].split()[0])


@pytest.mark.interop
def test_consumers_of_committed_records_read_what_they_read_before(
    name: str, standing_server: ServerThread
) -> None:
    wanted = expected(name)
    counts = {topic: seen["partitions"] for topic, seen in wanted["topics"].items() if topic[:2] != "__"}
    assert read_committed(standing_server.bootstrap, counts) == wanted["records"]


@pytest.mark.interop
def test_a_real_client_reads_the_topics_and_goes_on_after_a_restart(daemon: ServerThread) -> None:
    def read(count: int) -> list[tuple[int, int]]:
        consumer = Consumer(
            {
                "bootstrap.servers": daemon.bootstrap,
                "group.id": "reads-on",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        consumer.subscribe(["orders"])
        found: list[tuple[int, int]] = []
        while len(found) < count:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None, message.error()
            found.append((message.partition(), message.offset()))
        consumer.commit(asynchronous=False)
        consumer.close()
        return found

    def write() -> None:
        producer = Producer({"bootstrap.servers": daemon.bootstrap})
        for partition in range(4):
            producer.produce("orders", b"by groupd", partition=partition)
        assert producer.flush(20) == 0

    write()
    before = read(8)  # at least one of the broker and one of ours in each partition
    daemon.restart(signal.SIGTERM)
    write()
    after = read(4)
    assert not set(before) & set(after)


def test_partitions_that_were_on_other_brokers_do_not_move_the_groups(tmp_path: Path) -> None:
    """The number of partitions comes from the cluster, so that a group's name leads to where it always was."""
    unpack("clean", str(tmp_path))
    wanted = of_groupd(expected("clean")["served"])
    elsewhere = (0, *range(43, 50))  # partition_for("transactional") is 45
    for number in elsewhere:
        shutil.rmtree(tmp_path / f"__consumer_offsets-{number}")
    daemon = ServerThread(str(tmp_path))
    try:
        served = ask(daemon)
        with Connection(daemon.bootstrap) as connection:
            assert topics(connection)["__consumer_offsets"]["partitions"] == 50
    finally:
        daemon.stop()
    lost = [group for group in wanted if partition_for(group, 50) in elsewhere]
    assert lost
    kept = {group: seen for group, seen in wanted.items() if group not in lost}
    assert comparable(served, kept) == kept


def test_nothing_but_the_segments_is_needed(name: str, data: Path) -> None:
    """After the worst of crashes: no mark of a clean stop, no checkpoints, no indexes."""
    wanted = of_groupd(expected(name)["served"])
    for path in data.rglob("*"):
        if path.name == ".kafka_cleanshutdown" or path.name.endswith(("-checkpoint", "index", ".snapshot")):
            path.unlink()
    daemon = ServerThread(str(data))
    try:
        assert comparable(ask(daemon), wanted) == wanted
    finally:
        daemon.stop()
