"""All stand-ins of a server."""

import asyncio
from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.groups.groups import Groups
from coordinator.control.member_connections import MemberConnections
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.stand_ins.assigning import Partitions
from coordinator.control.stand_ins.classic_player import ClassicPlayer
from coordinator.control.stand_ins.consumer_player import ConsumerPlayer
from coordinator.control.stand_ins.stand_in import (
    Player,
    StandIn,
    StandInDescription,
    StandInSettings,
    asking,
)
from coordinator.group.events import Event
from coordinator.group.group_type import GroupType
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now
from coordinator.net.peer import printable
from coordinator.server.server import Server

MOST: Final = 1000
_RANGE: Final = "range"


class StandIns:
    """All methods belong to the event loop's thread."""

    def __init__(
        self, server: Server, acts: Acts, asker: GroupAsker, groups: Groups, connections: MemberConnections
    ) -> None:
        self._server = server
        self._acts = acts
        self._asker = asker
        self._groups = groups
        self._by_group: dict[str, dict[str, StandIn]] = {}
        connections.played.append(self._connection_ids)

    def all(self, group_id: str) -> list[StandInDescription]:
        """Those of a group, in the order in which they were made."""
        return [each.describe() for each in self._by_group.get(group_id, {}).values()]

    def make(
        self,
        group_id: str,
        client_id: str,
        topics: tuple[str, ...],
        *,
        group_instance_id: str | None,
        is_classic: bool | None,
        protocols: tuple[str, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        assignment: Mapping[str, Partitions] | None,
        by: str | None,
    ) -> StandInDescription:
        """Makes one, which joins from now on. In: None for the protocol of the group, or the classic one where
        there is none; no protocols for those that all members know. Raises Problem (name-taken, too-many)."""
        there = self._by_group.get(group_id, {})
        if client_id in there:
            what = f"Group {printable(group_id)} has a stand-in {printable(client_id)}"
            raise Problem(ProblemKind.NAME_TAKEN, what, f"{what} already.")
        if sum(map(len, self._by_group.values())) >= MOST:
            what = f"There are {MOST} stand-ins"
            raise Problem(ProblemKind.TOO_MANY, what, f"{what}, and no more are made.")
        view = self._groups.find(group_id)
        if is_classic is None:
            is_classic = view is None or view.type is GroupType.CLASSIC
        settings = StandInSettings(
            group_id=group_id,
            client_id=client_id,
            group_instance_id=group_instance_id,
            topics=topics,
            is_classic=is_classic,
            protocols=protocols or _common_protocols(view),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            assignment=assignment,
        )
        made = self._made(settings)
        if not self._by_group:
            self._server.group_events.listeners.append(self._happened)
        self._by_group.setdefault(group_id, {})[client_id] = made
        made.start()
        self._acts.note("stand-in", f"{client_id} joins", group_id, by)
        return made.describe()

    async def leave(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Has one say that it goes. These raise Problem (no-such-member, loading)."""
        found = self._get(group_id, client_id)
        self._acts.note("stand-in", f"{client_id} leaves", group_id, by)
        await found.leave()
        return found.describe()

    async def stall(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Has one say nothing any more, as a process that was stopped."""
        found = self._get(group_id, client_id)
        self._acts.note("stand-in", f"{client_id} stalls", group_id, by)
        await found.stall()
        return found.describe()

    async def rejoin(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Has one be a member again: one that was stalled as who it was, as far as the group knows it."""
        found = self._get(group_id, client_id)
        self._acts.note("stand-in", f"{client_id} rejoins", group_id, by)
        found.start()
        return found.describe()

    async def remove(self, group_id: str, client_id: str, by: str | None) -> None:
        """Has one leave, and forgets it."""
        found = self._get(group_id, client_id)
        self._acts.note("stand-in", f"{client_id} is removed", group_id, by)
        self._forget(group_id, client_id)
        await found.leave()

    async def remove_all(self, group_id: str, by: str | None) -> None:
        """The same of all of a group."""
        for client_id in list(self._by_group.get(group_id, {})):
            await self.remove(group_id, client_id, by)

    def close(self) -> None:
        """Ends all of them without a word."""
        for group in self._by_group.values():
            for each in group.values():
                each.close()

    def _made(self, settings: StandInSettings) -> StandIn:
        wake = asyncio.Event()
        connection_id = self._server.connections.next_id()
        ask = asking(self._asker, settings, connection_id)
        player: Player
        if settings.is_classic:
            player = ClassicPlayer(
                settings, ask, wake, self._counts, lambda: self._client_ids(settings.group_id)
            )
        else:
            player = ConsumerPlayer(
                settings,
                ask,
                wake,
                lambda: str(uuid4()),
                self._topic_names,
                lambda: self._wake(settings.group_id),
            )
        return StandIn(settings, player, wake, connection_id)

    def _get(self, group_id: str, client_id: str) -> StandIn:
        found = self._by_group.get(group_id, {}).get(client_id)
        if found is None:
            what = f"Group {printable(group_id)} has no stand-in {printable(client_id)}"
            raise Problem(ProblemKind.NO_SUCH_MEMBER, what, f"{what}.")
        return found

    def _forget(self, group_id: str, client_id: str) -> None:
        of_group = self._by_group[group_id]
        del of_group[client_id]
        if not of_group:
            del self._by_group[group_id]
        if not self._by_group:
            self._server.group_events.listeners.remove(self._happened)

    def _happened(self, partition: int, event: Event, number: int, now: Now) -> None:
        self._wake(event.group_id)

    def _wake(self, group_id: str) -> None:
        for each in self._by_group.get(group_id, {}).values():
            each.wake.set()

    def _connection_ids(self) -> set[int]:
        return {
            each.connection_id
            for group in self._by_group.values()
            for each in group.values()
            if each.is_connected
        }

    def _counts(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self._server.data_plane.catalogue}

    def _topic_names(self) -> dict[bytes, str]:
        return {topic.topic_id: topic.name for topic in self._server.data_plane.catalogue}

    def _client_ids(self, group_id: str) -> dict[str, str]:
        view = self._groups.find(group_id)
        members = () if view is None else view.members
        return {member.name.member_id: member.name.client_id for member in members}


def _common_protocols(view: GroupView | None) -> tuple[str, ...]:
    """What all members of a group know, in the order of the first one; range where there are none."""
    members = () if view is None else view.members
    if not members or not members[0].protocols:
        return (_RANGE,)
    common = set(members[0].protocols).intersection(*(member.protocols for member in members))
    return tuple(name for name in members[0].protocols if name in common)
