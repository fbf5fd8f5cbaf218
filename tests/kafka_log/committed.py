"""What a consumer of committed records reads: not those of aborted transactions, nor those of open ones."""

from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

TIMEOUT_S: Final = 60


def read_committed(bootstrap: str, partitions: dict[str, int]) -> dict[str, list[int]]:
    """Read each partition to its end and return the offsets by `topic-partition`. `partitions` are numbers by
    topic.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    wanted = [
        TopicPartition(name, number, 0) for name, count in partitions.items() for number in range(count)
    ]
    found: dict[str, list[int]] = {f"{part.topic}-{part.partition}": [] for part in wanted}
    consumer.assign(wanted)
    ended: set[str] = set()
    while len(ended) < len(wanted):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, found.keys() - ended
        name = f"{message.topic()}-{message.partition()}"
        error = message.error()
        if error is None:
            offset = message.offset()
            assert offset is not None
            found[name].append(offset)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(name)
    consumer.close()
    return found
