"""The configs that groups have of their own, beside the topics in the catalogue's file."""

from collections.abc import Callable, Mapping

from coordinator.topics.catalogue_file import EMPTY, CatalogueFile, CatalogueState
from coordinator.topics.steps import Work

ChangeConfigs = Callable[[CatalogueState], Mapping[str, str]]
"""The new configs, from those in a state; raises Refusal. Another thread calls it."""


class GroupConfigs:
    """Valid ones, by id of the group, which need not be there."""

    def __init__(self, file: CatalogueFile) -> None:
        """In: the file that they are kept in."""
        self._file = file

    @property
    def by_group(self) -> Mapping[str, Mapping[str, str]]:
        """Only groups that have configs."""
        return self._file.state.groups

    def of(self, group_id: str) -> Mapping[str, str]:
        """What that group has, by key."""
        return self.by_group.get(group_id, EMPTY)

    def changing(self, group_id: str, change: ChangeConfigs) -> Work[Mapping[str, str]]:
        """Changes the configs of a group, in steps; the new ones. Raises Refusal, OSError, StorageError: then the
        group keeps its configs."""
        state = yield from self._file.changing(lambda before: before.with_group(group_id, change(before)))
        return state.groups.get(group_id, EMPTY)
