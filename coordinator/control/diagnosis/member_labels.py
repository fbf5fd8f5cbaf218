"""What people call the members of a group, and how sentences about them are put together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.group.member_name import MemberName
from coordinator.net.peer import printable
from coordinator.server.log_words import listed, short_id

MOST_NAMED: Final = 10
_MAX_NAME: Final = 80


class Labels:
    """The shortest name that fits exactly one of some members: the client id, else the instance id, else the member
    id without the end of its UUID. All are printable."""

    def __init__(self, names: Iterable[MemberName]) -> None:
        self._names = {name.member_id: name for name in names}
        self._clients = Counter(name.client_id for name in self._names.values())
        self._instances = Counter(name.group_instance_id for name in self._names.values())

    def of(self, name: MemberName) -> str:
        """What to call one, whether or not it is among them."""
        others = 0 if name.member_id in self._names else 1
        if name.client_id and self._clients[name.client_id] + others == 1:
            return named(name.client_id)
        if name.group_instance_id is not None and self._instances[name.group_instance_id] + others == 1:
            return named(name.group_instance_id)
        return named(short_id(name.member_id)) if name.member_id else "a client without a name"

    def of_id(self, member_id: str) -> str:
        """The same for a member id, which may be nobody's."""
        name = self._names.get(member_id)
        return named(short_id(member_id)) if name is None else self.of(name)

    def all(self, names: Iterable[MemberName]) -> str:
        """`alice, bob and 8 more`."""
        return some([self.of(name) for name in names])


def goes_by(name: MemberName, reference: str) -> bool:
    """Whether a reference of somebody's (client id, instance id or member id) is about a member."""
    return reference in (name.client_id, name.group_instance_id, name.member_id)


def named(text: str) -> str:
    """A name from a client, for a sentence."""
    return printable(text, _MAX_NAME)


def some(texts: Sequence[str], most: int = MOST_NAMED) -> str:
    """`alice, bob and 8 more`."""
    return listed(texts[:most], len(texts))


def partition_names(topic: str, partitions: Iterable[int]) -> list[str]:
    """`orders-3` of each."""
    return [f"{named(topic)}-{partition}" for partition in partitions]


def ranges(topic: str, partitions: Iterable[int]) -> str:
    """`orders-0..2, orders-5`."""
    runs: list[list[int]] = []
    for number in sorted(partitions):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return some(
        [
            f"{named(topic)}-{first}" if first == last else f"{named(topic)}-{first}..{last}"
            for first, last in runs
        ]
    )


def seconds(milliseconds: int) -> str:
    """`0.9 s`."""
    return f"{milliseconds / 1000:.1f} s"
