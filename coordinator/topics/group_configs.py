"""The configs that groups have of their own, beside the topics in the catalogue's file."""

from collections.abc import Callable, Mapping

from coordinator.topics.steps import Work


class GroupConfigs:
    """Valid ones, by id of the group, which need not be there."""

    def __init__(self, saving: Callable[[], Work[None]]) -> None:
        """In: what writes the file, in steps; it raises OSError."""
        self.by_group: dict[str, Mapping[str, str]] = {}
        """Groups that have nothing of their own are not there."""
        self._saving = saving

    def of(self, group_id: str) -> Mapping[str, str]:
        """What that group has, by key."""
        return self.by_group.get(group_id, {})

    def replacing(self, group_id: str, overrides: Mapping[str, str]) -> Work[None]:
        """Gives a group other ones, in steps. What comes meanwhile builds on them. Raises OSError: then it has
        those that it had, unless others came meanwhile."""
        before, wanted = self.of(group_id), dict(overrides)
        self._put(group_id, wanted)
        try:
            yield from self._saving()
        except OSError:
            if self.of(group_id) == wanted:
                self._put(group_id, before)
            raise

    def _put(self, group_id: str, overrides: Mapping[str, str]) -> None:
        if overrides:
            self.by_group[group_id] = overrides
        else:
            self.by_group.pop(group_id, None)
