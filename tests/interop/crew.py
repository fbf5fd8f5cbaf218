"""Three stock consumers of one group on a groupd whose HTTP a test uses, brought back for each test."""

import itertools
from typing import Final

from tests.interop.broker import Broker, eventually
from tests.interop.control_room import ControlRoom
from tests.interop.driver import Driver
from tests.interop.group import Group, partitions_of
from tests.interop.member import Board, Member, Partition

PARTITIONS: Final = 6
SIZE: Final = 3
DEFAULT_SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000


class Crew:
    """A group that has its clients' default session timeout: no test waits for one to end."""

    def __init__(self, broker: Broker, driver: Driver, command: list[str], name: str) -> None:
        """Nobody joins yet; each partition of its topic has a record."""
        self.driver = driver
        self.topic = f"{name}-topic"
        self.everything = partitions_of(self.topic, PARTITIONS)
        self.board = Board()
        self.group = Group(broker, driver, command, name, self.board)
        self.group.session_timeout_ms, self.group.rebalance_timeout_ms = DEFAULT_SESSION_MS, REBALANCE_MS
        self.room = ControlRoom(broker, name)
        self.members: list[Member] = []
        self._names = (f"{driver.name}-{number}" for number in itertools.count(1))
        self._records = 0
        broker.create_topic(self.topic, PARTITIONS)
        self.produce()

    def complete(self) -> None:
        """Has as many members as ever, and waits until the group is ready."""
        while len(self.members) < SIZE:
            self.members.append(self.group.join(self.topic, client_id=next(self._names)))
        self.ready()

    def ready(self, **more: object) -> int:
        """Wait until each member owns the partitions that the coordinator assigned to it.

        Return the number of the group's last event. `more` are further conditions of the group.
        """
        seq = self.room.wait(state="Stable", members=len(self.members), owned=[self.topic], **more)
        self.group.converge(self.members, self.everything)
        # The last events of a member may still be in its pipe: it may seem to own its former assignment.
        eventually("each member to own its assignment", self._own_their_assignments, self.board.report)
        return seq

    def _own_their_assignments(self) -> bool:
        return {member.name: member.owned for member in self.members} == self.room.assignments()

    def kill(self, member: Member) -> None:
        """Ends a process, and waits until the coordinator has seen its connection close."""
        member.kill()
        self.members.remove(member)
        seen_gone(self.room, member.name)

    def produce(self) -> None:
        """Each partition gets one more record."""
        self.group.broker.produce(self.topic, PARTITIONS, 1)
        self._records += 1

    def consumed(self) -> None:
        """Wait until the owner of each partition has read its last record."""
        for member in self.members:
            self.group.consumed([member], {(*partition, self._records - 1) for partition in member.owned})

    def last_offsets(self, partitions: set[Partition]) -> dict[str, int]:
        """What is committed once all records of some partitions have been."""
        return {f"{topic}-{number}": self._records for topic, number in partitions}

    def all_commit(self) -> None:
        """Wait until every member has durably committed its records."""
        self.produce()
        self.consumed()
        eventually(
            "all members to commit",
            lambda: all(member.commit() for member in self.members),
            self.board.report,
        )
        self.room.wait(committed=self.last_offsets(self.everything))

    def dispose(self) -> None:
        """Ends every process."""
        for member in self.board.members:
            member.dispose()


def seen_gone(room: ControlRoom, client_id: str) -> None:
    """Waits until the coordinator has seen the connection of a client close."""
    eventually(f"{client_id} to be seen gone", lambda: client_id not in room.connected())
