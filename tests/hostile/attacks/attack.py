"""Attacks: a list of a request, a version, and a way to make the list expensive."""

from collections.abc import Iterator, Sequence
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from protocol.apis import ApiKey
from protocol.schema import FieldType, layout
from tests.hostile.attacks.list_fields import ListField, ListTree, Path, find_list_fields, find_list_trees


class AttackKind(Enum):
    """The way in which an attack makes a list expensive."""

    REPEAT = "repeat"
    """One element, again and again."""
    DISTINCT = "distinct"
    """As many different elements as there may be, existing ones first."""
    LONG = "long"
    """Elements with strings and bytes of the greatest length."""
    DEEP = "deep"
    """Elements with long lists of their own."""
    ALL = "all"
    """Null, which stands for all objects."""


class AttackSize(NamedTuple):
    """How large requests are."""

    element_share: float
    """Of the elements that an API allows in one request."""
    max_bytes: int
    """Of one request."""
    creates_topics: bool = False
    """Whether CreateTopics creates its partitions, which takes minutes on a slow disk, or only validates."""


SAMPLE_SIZE: Final = AttackSize(0.1, 4_000_000)
EXTENDED_SIZE: Final = AttackSize(0.15, 6_000_000)
LARGEST_SIZE: Final = AttackSize(1.0, 90_000_000, creates_topics=True)


class Attack(NamedTuple):
    """One request."""

    list_field: ListField
    version: int
    kind: AttackKind

    def __str__(self) -> str:
        return (
            f"{self.list_field.api.name} v{self.version} {'.'.join(self.list_field.path)}: {self.kind.value}"
        )

    def find_tree(self) -> ListTree:
        """Return the attacked list in the attack's version."""
        pending = list(find_list_trees(self.list_field.api.request, self.version))
        for tree in pending:  # grows meanwhile
            if tree.path == self.list_field.path:
                return tree
            pending += tree.children
        raise AssertionError(f"{self}: no such list in this version")


_WRITES: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
_CREATIONS: Final = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
_DELETIONS: Final = (
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_DELETE,
    ApiKey.LEAVE_GROUP,
    ApiKey.DELETE_ACLS,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
)


def _order(attack: Attack) -> int:
    """Place reading attacks before writing, creating and deleting ones."""
    key = attack.list_field.api.key
    if key in _DELETIONS:
        return 3 + _DELETIONS.index(key)
    return 2 if key in _CREATIONS else int(key in _WRITES)


def generate_attacks(seed: int, *, all_versions: bool = False) -> list[Attack]:
    """Return an attack of each kind on each list, in an order in which the state lasts.

    Args:
        seed: draws a version of each list and the order within a phase.
        all_versions: an attack for each of the newest, the oldest and a drawn version instead of the newest.
    """
    random = Random(seed)
    attacks = []
    for list_field in find_list_fields():
        versions = list_field.versions
        chosen = {versions[-1]}
        if all_versions:
            chosen |= {versions[0], random.choice(versions)}
        for version in sorted(chosen):
            attacks += [Attack(list_field, version, kind) for kind in find_kinds(list_field, version)]
    random.shuffle(attacks)
    return sorted(attacks, key=_order)


def sample_attacks(seed: int, count: int) -> list[Attack]:
    """Return a part of all attacks: each on another list, as long as there are lists."""
    attacks = generate_attacks(seed, all_versions=True)
    random = Random(seed)
    drawn = random.sample(attacks, len(attacks))
    first_by_list: dict[tuple[int, Path], Attack] = {}
    for attack in drawn:
        first_by_list.setdefault((attack.list_field.api.key, attack.list_field.path), attack)
    sample = list(first_by_list.values())[:count]
    return sorted(sample, key=_order)


def find_kinds(list_field: ListField, version: int) -> Iterator[AttackKind]:
    """Yield the kinds of attack that are possible on a list."""
    tree = Attack(list_field, version, AttackKind.REPEAT).find_tree()
    element = tree.field.type.element
    assert element is not None
    yield AttackKind.REPEAT
    yield AttackKind.DISTINCT
    if any(field.kind.name in ("string", "bytes", "records") for field in _own_fields(element, version)):
        yield AttackKind.LONG
    if tree.children:
        yield AttackKind.DEEP
    if tree.field.type.nullable:
        yield AttackKind.ALL


def _own_fields(element: FieldType, version: int) -> Sequence[FieldType]:
    """Return the fields of a struct without the fields in its lists, or a primitive element itself."""
    if element.struct_class is None:
        return [element]
    return [field.type for field in layout(element.struct_class, version)]
