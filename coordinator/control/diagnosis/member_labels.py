"""Names of the members of a group in sentences."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from coordinator.core.message_text import format_list as format_counted_list
from coordinator.core.message_text import list_ranges, printable
from coordinator.group.event_details import MemberName
from coordinator.group.member_text import shorten_member_id

MAX_NAMED: Final = 10
_MAX_NAME: Final = 80


class MemberLabels:
    """The shortest name that fits exactly one of some members: the client id, else the instance id, else the member
    id without the end of its UUID. All are printable. A name does not fit if it is any name of another member."""

    def __init__(self, names: Iterable[MemberName]) -> None:
        self._names = {name.member_id: name for name in names}
        self._members_by_reference = Counter(chain.from_iterable(map(_list_references, self._names.values())))

    def find_label(self, name: MemberName) -> str:
        """Return the name of a member, which need not be in the group."""
        unique = self._find_unique_name(name)
        if unique is not None:
            return format_name(unique)
        return format_name(shorten_member_id(name.member_id)) if name.member_id else "a client without a name"

    def find_reference(self, name: MemberName) -> str:
        """Return the shortest reference to one member that commands accept: its client id, instance id or member
        id, as the client sent it."""
        unique = self._find_unique_name(name)
        return name.member_id if unique is None else unique

    def _find_unique_name(self, name: MemberName) -> str | None:
        """Return the client id or the instance id of a member if no other member has it as one of its names."""
        member = self._names.get(name.member_id)
        own = frozenset() if member is None else _list_references(member)
        for reference in (name.client_id, name.group_instance_id):
            if reference and self._members_by_reference[reference] == (reference in own):
                return reference
        return None

    def find_label_by_id(self, member_id: str) -> str:
        """Return the label for a member id, whether or not a member has it."""
        name = self._names.get(member_id)
        return format_name(shorten_member_id(member_id)) if name is None else self.find_label(name)

    def format_labels(self, names: Iterable[MemberName]) -> str:
        """`alice, bob and 8 more`."""
        return format_list([self.find_label(name) for name in names])


def matches_reference(name: MemberName, reference: str) -> bool:
    """Return whether a reference (client id, instance id or member id) means a member."""
    return reference in (name.client_id, name.group_instance_id, name.member_id)


def _list_references(name: MemberName) -> frozenset[str]:
    """Return the different names of a member, each of which is a reference to it."""
    return frozenset(filter(None, name[:3]))


def format_name(text: str) -> str:
    """A name from a client, for a sentence."""
    return printable(text, _MAX_NAME)


def format_list(texts: Sequence[str], most: int = MAX_NAMED) -> str:
    """`alice, bob and 8 more`."""
    return format_counted_list(texts[:most], len(texts))


def list_partition_names(topic: str, partitions: Iterable[int]) -> list[str]:
    """Return names such as `orders-3`."""
    return [f"{format_name(topic)}-{partition}" for partition in partitions]


def format_ranges(topic: str, partitions: Iterable[int]) -> str:
    """Return ranges of partitions such as `orders-0..2, orders-5`."""
    return format_list([f"{format_name(topic)}-{one}" for one in list_ranges(partitions, "..")])
