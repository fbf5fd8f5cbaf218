"""All stand-ins of a server."""

import asyncio
from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.admin.group_operations import GroupOperations
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.stand_ins.member_clients import ClassicMemberClient, ConsumerMemberClient
from coordinator.control.stand_ins.stand_in_assignor import Partitions
from coordinator.control.stand_ins.stand_in_member import (
    MemberClient,
    StandInDescription,
    StandInMember,
    StandInSettings,
    create_sender,
)
from coordinator.core.message_text import printable
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView

MAX_STAND_INS: Final = 1000
_RANGE: Final = "range"


class StandInRegistry:
    """The stand-ins of a server. All methods belong to the event loop's thread."""

    def __init__(
        self,
        services: Services,
        actions: ActionLog,
        group_client: InternalGroupClient,
        groups: GroupOperations,
        connections: MemberConnections,
    ) -> None:
        self._services = services
        self._actions = actions
        self._group_client = group_client
        self._groups = groups
        self._by_group: dict[str, dict[str, StandInMember]] = {}
        connections.connection_id_sources.append(self._connection_ids)

    def list_stand_ins(self, group_id: str) -> list[StandInDescription]:
        """Return the stand-ins of a group, in the order of creation."""
        return [each.describe() for each in self._by_group.get(group_id, {}).values()]

    def create_stand_in(
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
        """Create a stand-in, which joins from now on.

        `is_classic` None means the protocol of the group, or else the classic one. Empty `protocols` means
        those that all members support. Raises Problem (name-taken, too-many).
        """
        stand_ins = self._by_group.get(group_id, {})
        if client_id in stand_ins:
            what = f"Group {printable(group_id)} already has a stand-in {printable(client_id)}"
            raise Problem(ProblemKind.NAME_TAKEN, what, f"{what} already.")
        if sum(map(len, self._by_group.values())) >= MAX_STAND_INS:
            what = f"There are {MAX_STAND_INS} stand-ins"
            raise Problem(ProblemKind.TOO_MANY, what, f"{what}, which is the limit.")
        view = self._groups.find_group(group_id)
        if is_classic is None:
            is_classic = view is None or view.type is GroupType.CLASSIC
        settings = StandInSettings(
            group_id=group_id,
            client_id=client_id,
            group_instance_id=group_instance_id,
            topics=topics,
            is_classic=is_classic,
            protocols=protocols or _find_common_protocols(view),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            assignment=assignment,
        )
        stand_in = self._build_stand_in(settings)
        if not self._by_group:
            self._services.group_events.subscribe(EventRank.STAND_INS, self._on_event)
        self._by_group.setdefault(group_id, {})[client_id] = stand_in
        stand_in.start()
        self._actions.record_action("stand-in", f"{client_id} joins", group_id, by)
        return stand_in.describe()

    async def leave_group(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Let a stand-in leave its group. This method and those below raise Problem (no-such-member, loading)."""
        found = self._find(group_id, client_id)
        self._actions.record_action("stand-in", f"{client_id} leaves", group_id, by)
        await found.leave()
        return found.describe()

    async def stall_member(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Make a stand-in stop sending requests, as a stopped process does."""
        found = self._find(group_id, client_id)
        self._actions.record_action("stand-in", f"{client_id} stalls", group_id, by)
        await found.stall()
        return found.describe()

    async def rejoin_group(self, group_id: str, client_id: str, by: str | None) -> StandInDescription:
        """Let a stand-in join again. A stalled one keeps its identity while the group knows it."""
        found = self._find(group_id, client_id)
        self._actions.record_action("stand-in", f"{client_id} rejoins", group_id, by)
        found.start()
        return found.describe()

    async def remove_stand_in(self, group_id: str, client_id: str, by: str | None) -> None:
        """Make a stand-in leave its group, and forget it."""
        found = self._find(group_id, client_id)
        self._actions.record_action("stand-in", f"{client_id} is removed", group_id, by)
        self._forget(group_id, client_id)
        await found.leave()

    async def remove_all(self, group_id: str, by: str | None) -> None:
        """Let all stand-ins of a group leave it, and forget them."""
        for client_id in list(self._by_group.get(group_id, {})):
            await self.remove_stand_in(group_id, client_id, by)

    def close(self) -> None:
        """Cancel all stand-ins without leaving their groups."""
        for group in self._by_group.values():
            for each in group.values():
                each.close()

    def _build_stand_in(self, settings: StandInSettings) -> StandInMember:
        wake = asyncio.Event()
        connection_id = self._services.connections.next_id()
        ask = create_sender(self._group_client, settings, connection_id)
        player: MemberClient
        if settings.is_classic:
            player = ClassicMemberClient(
                settings, ask, wake, self._count_partitions, lambda: self._map_client_ids(settings.group_id)
            )
        else:
            player = ConsumerMemberClient(
                settings,
                ask,
                wake,
                lambda: str(uuid4()),
                self._map_topic_names,
                lambda: self._wake_group(settings.group_id),
            )
        return StandInMember(settings, player, wake, connection_id)

    def _find(self, group_id: str, client_id: str) -> StandInMember:
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
            self._services.group_events.unsubscribe(self._on_event)

    def _on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        self._wake_group(event.group_id)

    def _wake_group(self, group_id: str) -> None:
        for each in self._by_group.get(group_id, {}).values():
            each.wake.set()

    def _connection_ids(self) -> set[int]:
        return {
            each.connection_id
            for group in self._by_group.values()
            for each in group.values()
            if each.is_connected
        }

    def _count_partitions(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self._services.data_plane.catalogue}

    def _map_topic_names(self) -> dict[bytes, str]:
        return {topic.topic_id: topic.name for topic in self._services.data_plane.catalogue}

    def _map_client_ids(self, group_id: str) -> dict[str, str]:
        view = self._groups.find_group(group_id)
        members = () if view is None else view.members
        return {member.name.member_id: member.name.client_id for member in members}


def _find_common_protocols(view: GroupView | None) -> tuple[str, ...]:
    """Return the protocols that all members of a group support, in the order of the first member, or range."""
    members = () if view is None else view.members
    if not members or not members[0].protocols:
        return (_RANGE,)
    common = set(members[0].protocols).intersection(*(member.protocols for member in members))
    return tuple(name for name in members[0].protocols if name in common)
