"""DescribeLogDirs: logs and their sizes."""

from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.oracle.batches import batch, produce_request
from tests.oracle.play import Play
from tests.oracle.session import session


def asked(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    """For some partitions of some topics."""
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics]
    )


@session(version=range(6))
def logs_are_weighed(play: Play, version: int) -> None:
    orders, empty = play.topic("orders", 3), play.topic("empty", 1)
    with play.quietly():
        play.ask(produce_request((orders, 0, batch(3)), (orders, 1, batch())), 9)
        play.ask(produce_request((orders, 1, batch(7))), 9)
    play.ask(DescribeLogDirsRequest(topics=None), version, note="all", own=True)
    play.ask(asked((orders.name, [2, 0]), (empty.name, [0])), version, note="some")
    play.ask(asked((orders.name, [1, 1]), (orders.name, [1, 0])), version, note="one again and again")
    play.ask(asked((orders.name, [1, 3, -1])), version, note="a partition that is not there")
    play.ask(asked((play.name("unknown"), [0]), (orders.name, [0])), version, note="an unknown topic")
    play.ask(asked(("not a name!", [0])), version, note="a strange topic")
    play.ask(asked((orders.name, [])), version, note="no partitions")
    play.ask(asked(), version, note="no topics")
