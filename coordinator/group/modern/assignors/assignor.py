"""Who assigns partitions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

Assignment: TypeAlias = dict[str, dict[bytes, frozenset[int]]]


class MemberSpec(Struct, frozen=True):
    """A member."""

    member_id: str
    instance_id: str | None
    topic_ids: Sequence[bytes]
    assigned: Mapping[bytes, Collection[int]]


class GroupSpec(Struct, frozen=True):
    """A group."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    partitions: Mapping[bytes, int]


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]
