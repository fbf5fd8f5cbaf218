"""Who counts as silent while time passes: who is named, else who is gone; everybody else lives.

Of a member whose client has just connected anew it is not known yet: its next heartbeat says that it lives.
"""

from collections.abc import Sequence

from coordinator.control.clock.departed import Departed
from coordinator.control.groups.member_reference import find_member
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.member_name import MemberName
from coordinator.group.view import GroupView
from coordinator.net.peer import printable


class Silence:
    """Decided when a group is looked at first: whoever joins later lives. A member that is evicted and comes back
    under a new id lives, too."""

    def __init__(self, names: Sequence[str] | None, departed: Departed) -> None:
        """In: member ids, instance ids or client ids; None: those that are gone."""
        self._names = names
        self._departed = departed
        self._silent: dict[str, set[str]] = {}
        self._unsure: dict[str, set[str]] = {}
        """Those of the silent ones who may live."""
        self.clients: list[str] = []
        """The client ids of those that are silent."""

    def look(self, view: GroupView) -> None:
        """Decides who of a group is silent; what was decided stands, but for those of whom it is not known yet."""
        if view.group_id in self._silent:
            self._look_again(view)
            return
        if self._names is None:
            silent = self._departed.of(view)
            self._unsure[view.group_id] = self._departed.back_perhaps(view)
        else:
            silent = {name.member_id for name in _everybody(view) if self._is_named(name)}
        self._silent[view.group_id] = silent
        self.clients += [name.client_id for name in _everybody(view) if name.member_id in silent]

    def _look_again(self, view: GroupView) -> None:
        unsure = self._unsure.get(view.group_id)
        if not unsure:
            return
        here = unsure - self._departed.of(view)
        self._unsure[view.group_id] = unsure & self._departed.back_perhaps(view)
        self._silent[view.group_id] -= here
        for name in _everybody(view):
            if name.member_id in here:
                self.clients.remove(name.client_id)

    def is_unsure(self, group_id: str, member_id: str) -> bool:
        """Whether it is not known of a silent member whether it lives."""
        return member_id in self._unsure.get(group_id, ())

    def living(self, view: GroupView) -> set[str]:
        """The ids of those that live, pending ones among them."""
        silent = self._silent.get(view.group_id, set())
        gone = self._departed.of(view) if view.pending else ()
        living = {name.member_id for name in _everybody(view)} - silent
        return living - {pending.name.member_id for pending in view.pending if pending.name.member_id in gone}

    def refuse_unknown(self, views: Sequence[GroupView]) -> None:
        """Raises Problem (no-such-member, ambiguous-member) where a name is nobody's, or of one group several's."""
        for name in self._names or ():
            if len(views) == 1 and not any(pending.name.member_id == name for pending in views[0].pending):
                find_member(views[0], name)
            elif not any(name in _names(one) for view in views for one in _everybody(view)):
                detail = f"silent: no member of a group that goes by this clock is called {printable(name)}."
                raise Problem(ProblemKind.NO_SUCH_MEMBER, f"there is no {printable(name)}", detail)

    def _is_named(self, name: MemberName) -> bool:
        return self._names is not None and any(one in self._names for one in _names(name))


def _everybody(view: GroupView) -> list[MemberName]:
    return [member.name for member in view.members] + [pending.name for pending in view.pending]


def _names(name: MemberName) -> tuple[str | None, ...]:
    return name.member_id, name.group_instance_id, name.client_id
