"""kafka-transactions: which transactions there are, which of them hang, and an end to them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from tests.interop.broker import Broker
from tests.interop.daemon import Daemon
from tests.tools.desk import WAIT_S, Desk
from tests.tools.machine import Machine
from tests.tools.transactions import begun, described_producers, listed, write_unknown

pytestmark = pytest.mark.interop


def test_a_transaction_from_its_first_record_to_its_end(desk: Desk, topic: str) -> None:
    """As list, describe and describe-producers show it."""
    name = f"{topic}-id"
    desk.create_topic(topic, 2)
    producer = begun(desk, name, topic, 0, 1)
    row = listed(desk, name)
    assert row is not None
    assert (row["Coordinator"], row["TransactionState"]) == ("1", "Ongoing")
    (state,) = desk.transactions("describe", "--transactional-id", name)
    assert (state["TransactionState"], state["ProducerId"]) == ("Ongoing", row["ProducerId"])
    assert set(state["TopicPartitions"].split(",")) == {f"{topic}-0", f"{topic}-1"}
    assert int(state["CurrentTransactionStartTimeMs"]) > 0
    (writer,) = described_producers(desk, topic, 1)
    assert (writer["ProducerId"], writer["ProducerEpoch"]) == (row["ProducerId"], state["ProducerEpoch"])
    assert (writer["LastSequence"], writer["CurrentTransactionStartOffset"]) == ("0", "0")
    producer.commit_transaction(WAIT_S)
    row = listed(desk, name)
    assert row is not None
    assert row["TransactionState"] == "CompleteCommit"
    *_, ended, _, _, _ = desk.run_transactions("describe", "--transactional-id", name).out.split()
    assert ended == "CompleteCommit", "and no partitions behind it"
    (writer,) = described_producers(desk, topic, 1)
    assert writer["CurrentTransactionStartOffset"] == "None"


def test_what_is_listed_can_be_narrowed(desk: Desk, topic: str) -> None:
    """To ids of a pattern, and to transactions that take long."""
    name = f"{topic}-id"
    desk.create_topic(topic)
    begun(desk, name, topic, 0)
    assert listed(desk, name, "--transactional-id-pattern", f"{topic}-.*")
    assert not listed(desk, name, "--transactional-id-pattern", "another-.*")
    assert not listed(desk, name, "--duration-filter", "3600000")


def test_what_is_not_there_is_not_described(desk: Desk, topic: str) -> None:
    """The tool names the error and fails."""
    done = desk.run_transactions("describe", "--transactional-id", f"{topic}-none")
    assert done.status != 0
    assert "could not be found" in done.err


def test_a_transaction_is_terminated_by_force(desk: Desk, topic: str) -> None:
    """Its producer is fenced, and nothing of it remains open."""
    name = f"{topic}-id"
    desk.create_topic(topic)
    producer = begun(desk, name, topic, 0)
    desk.transactions("forceTerminateTransaction", "--transactionalId", name)
    (writer,) = described_producers(desk, topic, 0)
    assert writer["CurrentTransactionStartOffset"] == "None"
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(WAIT_S)
    assert refused.value.args[0].fatal()


@pytest.fixture
def lenient(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A broker that takes records of transactions that its coordinator does not know."""
    unverified = ("-o", "transaction.partition.verification.enable=false")
    daemon = Daemon(str(tmp_path_factory.mktemp("groupd")), *unverified)
    yield Desk(Broker(daemon.bootstrap, daemon), machine)
    daemon.stop()


def test_a_transaction_that_nobody_will_end_is_found_and_aborted(lenient: Desk, topic: str) -> None:
    """The tool finds an old transaction that its coordinator does not know, and no known one."""
    lenient.create_topic(topic, 2)
    begun(lenient, f"{topic}-id", topic, 1)
    write_unknown(lenient.bootstrap, topic, 0)
    for limit in (("--broker-id", "1"), ("--topic", topic)):
        (hanging,) = lenient.transactions("find-hanging", *limit)
        assert (hanging["Topic"], hanging["Partition"]) == (topic, "0")
        assert (hanging["ProducerId"], hanging["ProducerEpoch"], hanging["StartOffset"]) == ("4711", "3", "0")
    lenient.transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert lenient.transactions("find-hanging", "--broker-id", "1") == []
    (writer,) = described_producers(lenient, topic, 0)
    assert writer["CurrentTransactionStartOffset"] == "None"
    (open_still,) = described_producers(lenient, topic, 1)
    assert open_still["CurrentTransactionStartOffset"] == "0"
