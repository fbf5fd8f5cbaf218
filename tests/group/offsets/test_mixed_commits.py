"""Plain and transactional commits for one partition of a group cause one event for each group and load.

Transactions commit without membership here, as those of producers before KIP-447 do.
"""

from coordinator.group.group_event_types import MixedCommits
from protocol.error_codes import ErrorCode
from tests.group.coordinator import GROUP, Coordinator


class Application(Coordinator):
    """A coordinator with one member in each group, which commits outside of transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, str] = {}

    def start(self, group: str = GROUP) -> str:
        """Join the group as its only member, and return the member id."""
        ask = self.join(group=group, version=3, session=1_800_000)
        self.advance(2 * self.config.group_initial_rebalance_delay_ms)
        member_id = ask.joined.member_id
        self.sync(member_id, self.generation(group), {member_id: b""}, group=group)
        self.members[group] = member_id
        return member_id

    def stop(self, group: str = GROUP) -> None:
        """Leave the group, which is Empty then."""
        assert self.leave_alone(self.members.pop(group), group=group) == ErrorCode.NONE

    def generation(self, group: str) -> int:
        classic = self.shard.view_group(group, self.now)
        assert classic is not None
        return classic.generation_id

    def plain(self, *, group: str = GROUP, topic: str = "foo", partition: int = 0) -> None:
        """Commit as the member of the group, which first joins if necessary."""
        member_id = self.members.get(group) or self.start(group)
        error = self.commit(member_id, self.generation(group), topic=topic, partition=partition, group=group)
        assert error == ErrorCode.NONE

    def administer(self, *, partition: int = 0) -> None:
        """Commit as kafka-streams-application-reset and kafka-consumer-groups --reset-offsets do."""
        assert self.commit(partition=partition) == ErrorCode.NONE


def list_mixed_commits(coordinator: Coordinator) -> list[tuple[str, int, bool]]:
    return [
        (event.group_id, event.partition, event.is_transactional)
        for event in coordinator.find_events(MixedCommits)
    ]


def test_a_plain_commit_where_one_is_pending() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    assert list_mixed_commits(coordinator) == []
    coordinator.plain()
    assert list_mixed_commits(coordinator) == [(GROUP, 0, False)]


def test_a_plain_commit_where_one_was_committed() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.plain()
    assert list_mixed_commits(coordinator) == [(GROUP, 0, False)]


def test_a_transaction_where_there_was_a_plain_commit() -> None:
    coordinator = Application()
    coordinator.plain(partition=1)
    coordinator.txn_commit(9, partition=1)
    assert list_mixed_commits(coordinator) == [(GROUP, 1, True)]


def test_it_is_told_once_for_each_group() -> None:
    coordinator = Application()
    for group in ("a", "b"):
        for _ in range(3):
            coordinator.txn_commit(9, group=group)
            coordinator.plain(group=group)
            coordinator.end(9)
            coordinator.plain(group=group, partition=1)
            coordinator.txn_commit(8, group=group, partition=1)
    assert list_mixed_commits(coordinator) == [("a", 0, False), ("b", 0, False)]


def test_different_partitions_topics_and_groups_are_not_mixed() -> None:
    coordinator = Application()
    for _ in range(2):
        coordinator.txn_commit(9)
        coordinator.plain(partition=1)
        coordinator.plain(topic="bar")
        coordinator.plain(group="another")
        coordinator.end(9)
    assert list_mixed_commits(coordinator) == []


def test_an_aborted_transaction_leaves_the_offset_as_plain_as_it_was() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    coordinator.end(9, is_committed=False)
    coordinator.plain()
    coordinator.plain()
    assert list_mixed_commits(coordinator) == []


def test_nothing_is_left_of_an_offset_that_was_deleted() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.delete_offsets(("foo", 0))
    coordinator.plain()
    coordinator.stop()
    coordinator.delete_groups(GROUP)
    coordinator.txn_commit(9)
    assert list_mixed_commits(coordinator) == []


def test_a_group_that_was_deleted_is_told_anew() -> None:
    coordinator = Application()
    for _ in range(2):
        coordinator.plain()
        coordinator.txn_commit(9)
        coordinator.stop()
        coordinator.delete_groups(GROUP)
    assert list_mixed_commits(coordinator) == [(GROUP, 0, True)] * 2


def test_of_what_was_loaded_it_is_not_known() -> None:
    """The value of a record does not show whether the offset was committed in a transaction."""
    coordinator = Application()
    coordinator.txn_commit(9, partition=0)
    coordinator.end(9)
    coordinator.plain(partition=1)
    coordinator.advance(10)
    coordinator.restart()
    coordinator.advance(10)
    coordinator.plain(partition=0)
    coordinator.txn_commit(9, partition=1)
    coordinator.end(9)
    assert list_mixed_commits(coordinator) == []
    coordinator.txn_commit(9, partition=0)
    assert list_mixed_commits(coordinator) == [(GROUP, 0, True)]


def test_what_was_pending_at_a_load_is_known() -> None:
    coordinator = Application()
    coordinator.txn_commit(9, partition=0)
    coordinator.txn_commit(9, partition=1)
    coordinator.restart()
    coordinator.end(9)
    coordinator.plain(partition=1)
    assert list_mixed_commits(coordinator) == [(GROUP, 1, False)]
    coordinator.restart()
    coordinator.txn_commit(9, partition=2)
    coordinator.plain(partition=2)
    assert list_mixed_commits(coordinator) == [(GROUP, 2, False)]


def test_a_reset_of_a_stopped_exactly_once_application_is_not_one_of_its_commits() -> None:
    coordinator = Application()
    for _ in range(2):
        coordinator.start()
        coordinator.txn_commit(9)
        coordinator.end(9)
        coordinator.stop()
        coordinator.advance(1)
        coordinator.administer()
        coordinator.administer(partition=1)
        coordinator.advance(1)
    coordinator.start()
    for partition in (0, 1):
        coordinator.txn_commit(9, partition=partition)
    coordinator.end(9)
    assert list_mixed_commits(coordinator) == []


def test_a_reset_after_a_load_is_none_either() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.restart()
    coordinator.advance(10)
    coordinator.administer()
    coordinator.txn_commit(9)
    coordinator.end(9)
    assert list_mixed_commits(coordinator) == []


def test_an_application_of_plain_commits_may_go_on_after_a_reset() -> None:
    coordinator = Application()
    coordinator.txn_commit(9)
    coordinator.end(9)
    coordinator.administer()
    coordinator.plain()
    assert list_mixed_commits(coordinator) == []


def test_members_that_mix_after_a_reset_are_told() -> None:
    coordinator = Application()
    coordinator.administer()
    coordinator.advance(1)
    coordinator.plain()
    coordinator.txn_commit(9)
    assert list_mixed_commits(coordinator) == [(GROUP, 0, True)]
