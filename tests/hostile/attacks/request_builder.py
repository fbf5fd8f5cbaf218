"""Builds the request of an attack."""

from typing import Any, Final

from msgspec import NODEFAULT

from protocol.schema import FieldType, layout
from tests.hostile.attacks.attack import Attack, AttackKind, AttackSize
from tests.hostile.attacks.field_values import FieldValues
from tests.hostile.attacks.list_fields import ListTree, Path, find_list_trees

MAX_TEXT: Final = 30_000
"""Characters of a long string; a string of Kafka's protocol has 32,767 bytes at most."""
ELEMENT_BYTES: Final = 100
"""What an element of an attack that is not LONG may take, as an estimate."""
LEFT_OUT: Final = frozenset(
    {
        ("CreateTopics", "topics", "assignments"),
        ("CreateTopics", "topics", "configs"),
        ("AlterPartitionReassignments", "topics", "partitions", "replicas"),
    }
)
"""Lists that are empty or null in a usual request."""


class RequestBuilder:
    """Builds one request: the attacked list is long, lists around it have one element, other lists have none."""

    def __init__(self, attack: Attack, size: AttackSize, values: FieldValues) -> None:
        self._attack = attack
        self._api = attack.list_field.api
        self._target = attack.list_field.path
        self._values = values
        self._lengths: dict[Path, int] = {}
        self._max_elements = int(self._api.max_elements * size.element_share)
        self._max_bytes = size.max_bytes
        self._plan_lengths()

    def build(self) -> Any:
        """Return the request."""
        return self._build_struct(self._api.request, (), 0)

    def _plan_lengths(self) -> None:
        tree = self._attack.find_tree()
        room = self._max_elements - (len(self._target) - 1)
        kind = self._attack.kind
        if kind is AttackKind.ALL:
            return
        if kind is AttackKind.LONG:
            length = max(1, min(room, self._max_bytes // MAX_TEXT))
        elif kind is AttackKind.DEEP:
            length = self._plan_deep_lists(tree, room)
        else:
            per_element = 1 + self._plan_usual_lists(tree)
            length = max(1, min(room // per_element, self._max_bytes // ELEMENT_BYTES))
        self._lengths[self._target] = length

    def _plan_deep_lists(self, tree: ListTree, room: int) -> int:
        """Share the elements between all levels; return the length of the attacked list."""
        share = room / (1 + tree.descendants)
        each = max(1, int(share ** (1 / tree.levels)))
        pending = list(tree.children)
        for child in pending:  # grows meanwhile
            self._lengths[child.path] = each
            pending += child.children
        return each

    def _plan_usual_lists(self, tree: ListTree) -> int:
        """Give the lists in the elements one element, or null where it stands for all; return their elements."""
        count = 0
        for child in tree.children:
            if child.field.type.nullable or (self._api.name, *child.path) in LEFT_OUT:
                continue
            self._lengths[child.path] = 1
            count += 1 + self._plan_usual_lists(child)
        return count

    def _build_struct(self, cls: type[Any], path: Path, index: int) -> Any:
        version = self._attack.version
        fields = layout(cls, version)
        names = {field.name for field in fields}
        filled: dict[str, Any] = {}
        for field in fields:
            inner, here = field.type, (*path, field.name)
            if inner.element is not None:
                filled[field.name] = self._build_list(inner, here)
            elif inner.struct_class is not None:
                is_optional = inner.nullable or field.default is None
                filled[field.name] = None if is_optional else self._build_struct(inner.struct_class, here, 0)
            else:
                filled[field.name] = self._choose_value(inner, here, index, names, field.default)
        return cls(**filled)

    def _build_list(self, field: FieldType, path: Path) -> list[Any] | None:
        element = field.element
        assert element is not None
        length = self._lengths.get(path)
        if length is None and path == self._target[: len(path)] and path != self._target:
            length = 1
        if length is None:
            return None if field.nullable else []
        if path == self._target and self._attack.kind is AttackKind.REPEAT:
            return [self._build_element(element, path, 0)] * length
        return [self._build_element(element, path, index) for index in range(length)]

    def _build_element(self, element: FieldType, path: Path, index: int) -> Any:
        if element.struct_class is not None:
            return self._build_struct(element.struct_class, path, index)
        return self._choose_value(element, path, index, set(), NODEFAULT)

    def _choose_value(
        self, field: FieldType, path: Path, index: int, siblings: set[str], default: object
    ) -> Any:
        value = self._values.find(self._attack, path, index, siblings)
        if value is None:
            value = zero_value(field) if default is NODEFAULT else default
        if self._attack.kind is AttackKind.LONG and self._is_in_element(path):
            return lengthen(value, field, index)
        return value

    def _is_in_element(self, path: Path) -> bool:
        return path in (self._target, (*self._target, path[-1]))


def lengthen(value: Any, field: FieldType, index: int) -> Any:
    """Return a long value of a field's type, another one for each index; numbers stay as they are."""
    if field.kind.name == "string":
        return f"{index}-".ljust(MAX_TEXT, "x")
    if field.kind.name in ("bytes", "records"):
        return bytes(MAX_TEXT)
    return value


def zero_value(field: FieldType) -> Any:
    """Return the value of a field that is not given."""
    if field.kind.letter:
        return False if field.kind.letter == "?" else 0
    if field.kind.name == "uuid":
        return bytes(16)
    return "" if field.kind.name == "string" else b""


def count_elements(request: Any, version: int) -> int:
    """Count the elements of all lists of a request, as the decoder does."""

    def count(cls: type[Any], struct: Any) -> int:
        total = 0
        for tree in find_list_trees(cls, version):
            value = getattr(struct, tree.field.name, None) or []
            element = tree.field.type.element
            assert element is not None
            total += len(value)
            if element.struct_class is not None and tree.children:
                total += sum(count(element.struct_class, inner) for inner in value)
        return total

    return count(type(request), request)
