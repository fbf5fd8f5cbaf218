"""A consumer group of one driver's members, as a test handles it."""

import itertools

from tests.interop.broker import Broker, eventually
from tests.interop.driver import Driver
from tests.interop.member import Board, Member, Partition, covered

SESSION_TIMEOUT_MS = 6_000
"""A member that lives must send a heartbeat within this time, on a busy machine too."""
HEARTBEAT_MS = 300
REBALANCE_TIMEOUT_MS = 30_000
METADATA_MAX_AGE_MS = 500
ASSIGNMENT_INTERVAL_MS = 100


class Group:
    """Members of one group over one broker, all with the same settings."""

    def __init__(self, broker: Broker, driver: Driver, command: list[str], name: str, board: Board) -> None:
        """Describe the group, without members."""
        self.name = name
        self.broker = broker
        self.driver = driver
        self.board = board
        board.broker_report = broker.report
        self.group_protocol = driver.group_protocol
        self.assignor = driver.assignors[0]
        self.session_timeout_ms = SESSION_TIMEOUT_MS
        self.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        self.heartbeat_ms = HEARTBEAT_MS
        self.metadata_max_age_ms = 60_000
        self.isolation_level = "read_uncommitted"
        self._is_configured = False
        self._command = command
        self._numbers = itertools.count(1)

    def join(self, *topics: str, pattern: str = "", instance_id: str = "", client_id: str = "") -> Member:
        """Start a member; it is in the group once it is assigned partitions. It has its client id for a name."""
        number = next(self._numbers)
        if self.group_protocol == "consumer" and not self._is_configured:
            self.configure()
        arguments = {
            "bootstrap": self.broker.bootstrap,
            "group": self.name,
            "topics": ",".join(topics),
            "pattern": pattern,
            # Not every driver knows of the other one.
            "group-protocol": "" if self.group_protocol == "classic" else self.group_protocol,
            "assignor": self.assignor,
            "instance-id": instance_id,
            "client-id": client_id,
            "session-timeout-ms": self.session_timeout_ms,
            "heartbeat-ms": self.heartbeat_ms,
            "rebalance-timeout-ms": self.rebalance_timeout_ms,
            "metadata-max-age-ms": self.metadata_max_age_ms,
            "isolation-level": self.isolation_level,
        }
        options = [
            word for name, value in arguments.items() if value != "" for word in (f"--{name}", str(value))
        ]
        return Member(self.board, client_id or f"{self.driver.name}-{number}", [*self._command, *options])

    def configure(self) -> None:
        """Set the session and heartbeat times of the group for members of the consumer protocol."""
        self._is_configured = True
        times = {
            "session.timeout": self.session_timeout_ms,
            "heartbeat.interval": self.heartbeat_ms,
            "assignment.interval": ASSIGNMENT_INTERVAL_MS,
        }
        self.broker.configure_group(
            self.name, {f"consumer.{name}.ms": str(value) for name, value in times.items()}
        )

    def converge(self, members: list[Member], partitions: set[Partition], timeout_s: float = 60.0) -> None:
        """Wait until these members share all these partitions, each with one owner and no member idle."""
        names = ", ".join(member.name for member in members)
        self.board.wait(
            f"{names} to share {len(partitions)} partitions", lambda: covered(members, partitions), timeout_s
        )

    def settle(self, members: list[Member], partitions: set[Partition]) -> None:
        """Wait as `converge` does, and until the coordinator plans no further change."""
        self.converge(members, partitions)
        found: list[tuple[str, str]] = []

        def settled() -> bool:
            found.append(self.broker.listed(self.name))
            return found[-1][1] == "Stable"

        eventually("the group to be Stable; it is", settled, lambda: found[-1])
        self.converge(members, partitions)

    def consumed(
        self, members: list[Member], expected: set[tuple[str, int, int]], timeout_s: float = 60.0
    ) -> None:
        """Wait until these members were delivered all of these records."""

        def arrived() -> bool:
            return expected <= {record for member in members for record in member.records()}

        self.board.wait(f"{len(expected)} records to be consumed", arrived, timeout_s)

    def commit(self, members: list[Member], expected: dict[Partition, int]) -> None:
        """Let every member commit, which must be accepted, and wait until the broker has exactly these offsets."""
        refused = [member.name for member in members if not member.commit()]
        assert not refused, f"commits of {refused} were refused\n{self.board.report()}"
        self.broker.wait_committed(self.name, expected)

    def commit_in_the_end(self, members: list[Member], expected: dict[Partition, int]) -> None:
        """Wait for commits of members that may be rejoining: refused commits are repeated."""

        def committed() -> bool:
            return all(member.commit() for member in members) and self.broker.committed(self.name) == expected

        eventually("the members to commit", committed, self.board.report)


def partitions_of(topic: str, count: int) -> set[Partition]:
    """Return the partitions 0 to count - 1 of a topic."""
    return {(topic, partition) for partition in range(count)}


def records_of(topic: str, count: int, first: int, end: int) -> set[tuple[str, int, int]]:
    """Return (topic, partition, offset) for offsets `first` to `end` - 1 of partitions 0 to count - 1."""
    return {(topic, partition, offset) for partition in range(count) for offset in range(first, end)}
