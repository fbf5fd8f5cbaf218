"""Display names of the members of a group."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.core.message_text import format_list as format_counted_list
from coordinator.core.message_text import list_ranges, printable
from coordinator.group.event_details import MemberName
from coordinator.group.member_text import shorten_member_id

MAX_NAMED: Final = 10
_MAX_NAME: Final = 80


class MemberLabels:
    """Maps each member to its shortest unambiguous name: the client id, else the instance id, else the member id
    with a shortened UUID. A name is ambiguous if another member has it as any of its ids. All names are
    printable."""

    def __init__(self, names: Iterable[MemberName]) -> None:
        self._names = {name.member_id: name for name in names}
        self._members_by_reference = Counter[str | None]()
        for name in self._names.values():
            self._members_by_reference.update({*name[:3]})  # a member counts once, also with two equal names

    def find_label(self, name: MemberName) -> str:
        """Return the display name of a member, which need not be in the group."""
        reference = self.find_reference(name)
        if reference != name.member_id:
            return format_name(reference)
        return format_name(shorten_member_id(name.member_id)) if name.member_id else "a client without a name"

    def find_reference(self, name: MemberName) -> str:
        """Return the shortest reference to one member that commands accept: its client id, instance id or member
        id, as the client sent it."""
        member = self._names.get(name.member_id)
        for reference in (name.client_id, name.group_instance_id):
            is_own = member is not None and reference in member[:3]
            if reference and self._members_by_reference[reference] == is_own:
                return reference
        return name.member_id

    def find_label_by_id(self, member_id: str) -> str:
        """Return the label for a member id, whether or not a member has it."""
        name = self._names.get(member_id)
        return format_name(shorten_member_id(member_id)) if name is None else self.find_label(name)

    def format_labels(self, names: Iterable[MemberName]) -> str:
        """Format the display names of members as text, such as `alice, bob and 8 more`."""
        return format_list([self.find_label(name) for name in names])


def matches_reference(name: MemberName, reference: str) -> bool:
    """Return whether a reference (client id, instance id or member id) matches a member."""
    return reference in (name.client_id, name.group_instance_id, name.member_id)


def format_name(text: str) -> str:
    """Return a client's name in printable form for a sentence."""
    return printable(text, _MAX_NAME)


def format_list(texts: Sequence[str], most: int = MAX_NAMED) -> str:
    """Format texts as a list of at most `most` of them, such as `alice, bob and 8 more`."""
    return format_counted_list(texts[:most], len(texts))


def list_partition_names(topic: str, partitions: Iterable[int]) -> list[str]:
    """Return names such as `orders-3`."""
    return [f"{format_name(topic)}-{partition}" for partition in partitions]


def format_ranges(topic: str, partitions: Iterable[int]) -> str:
    """Return ranges of partitions such as `orders-0..2, orders-5`."""
    return format_list([f"{format_name(topic)}-{one}" for one in list_ranges(partitions, "..")])
