"""The lists in the requests of all advertised APIs, found in the declarations of the messages."""

from typing import Any, NamedTuple

from protocol.apis import APIS, Api
from protocol.schema import FieldLayout, layout

Path = tuple[str, ...]
"""Names of fields from the request inwards, such as ("topics", "partitions")."""


class ListField(NamedTuple):
    """A list in the request of an API, and the versions that carry it."""

    api: Api
    path: Path
    versions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.api.name} {'.'.join(self.path)}"


class ListTree(NamedTuple):
    """A list in one version, with the lists in its elements."""

    path: Path
    field: FieldLayout
    children: tuple["ListTree", ...]

    @property
    def levels(self) -> int:
        """How deep lists are nested from here on, this one included."""
        return 1 + max((child.levels for child in self.children), default=0)

    @property
    def descendants(self) -> int:
        """How many lists the elements of this one contain, at any depth."""
        return sum(1 + child.descendants for child in self.children)


def find_list_trees(cls: type[Any], version: int, path: Path = ()) -> tuple[ListTree, ...]:
    """Return the lists of a message class in a version, in the order of their fields."""
    trees: list[ListTree] = []
    for field in layout(cls, version):
        inner, here = field.type, (*path, field.name)
        if inner.element is not None:
            element = inner.element.struct_class
            children = () if element is None else find_list_trees(element, version, here)
            trees.append(ListTree(here, field, children))
        elif inner.struct_class is not None:
            trees += find_list_trees(inner.struct_class, version, here)
    return tuple(trees)


def find_list_fields() -> tuple[ListField, ...]:
    """Return every list of every request that is advertised."""
    return tuple(found for api in APIS.values() for found in _find_list_fields(api))


def _find_list_fields(api: Api) -> list[ListField]:
    versions: dict[Path, list[int]] = {}
    for version in range(api.versions.first, api.versions.last + 1):
        pending = list(find_list_trees(api.request, version))
        for tree in pending:  # grows meanwhile
            versions.setdefault(tree.path, []).append(version)
            pending += tree.children
    return [ListField(api, path, tuple(carrying)) for path, carrying in versions.items()]
