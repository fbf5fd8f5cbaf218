"""Whether a request, or its answer, is one that a rule is about."""

from collections.abc import Callable
from typing import Final

from coordinator.control.faults.asked import DEAD, Asked
from coordinator.control.faults.patterns import (
    any_fits,
    impossible,
    known_names,
    names_pattern,
    number_pattern,
    unknown_name,
    wrong,
)
from coordinator.control.faults.rule import Match, Number, Text
from coordinator.control.faults.scope import API_BY_NAME, CARRIED_BY
from coordinator.group.state_names import STATE_NAMES
from coordinator.group.view import GroupView
from protocol.apis import APIS
from protocol.errors import ErrorCode

MOST_CLIENTS: Final = 10_000
"""Whose first connection is remembered."""

_Names = Callable[[str], bool] | None
_Numbers = Callable[[int], bool] | None


class Matcher:
    """A match, made ready. Raises Problem where nothing could ever fit."""

    def __init__(self, match: Match) -> None:
        self.keys = _keys(match)
        """The APIs whose requests may fit."""
        self._version = _numbers(match.version, "version")
        self._group = _names(match.group, "group")
        self._topic = _names(match.topic, "topic")
        self._client_id = _names(match.client_id, "client_id")
        self._member_id = _names(match.member_id, "member_id")
        self._instance_id = _names(match.group_instance_id, "group_instance_id")
        self._host = _names(match.host, "host")
        self._role = match.role
        self._state = _names(match.state, "state")
        if match.state is not None:
            known_names(match.state, STATE_NAMES, "/match/state", "a state of a group")
        self._generation = _numbers(match.generation, "generation")
        self._members = _numbers(match.members, "members")
        self._first_join = match.first_join
        self._is_first_connection = match.connection == "first"
        self._first_of: dict[str, int] = {}
        self._errors = None if match.error is None else _errors(match.error)
        looks = (match.role, match.state, match.members, match.first_join)
        self._looks_at_group = any(look is not None for look in looks)

    @property
    def awaits_answer(self) -> bool:
        """Whether only the answer tells."""
        return self._errors is not None

    def fits_error(self, errors: set[int]) -> bool:
        """Whether the errors of an answer are as asked for."""
        return self._errors is None or not self._errors.isdisjoint(errors)

    def fits(self, asked: Asked) -> bool:
        """Whether a request is as asked for, whatever its answer is."""
        if asked.key not in self.keys or (self._version is not None and not self._version(asked.version)):
            return False
        return (
            any_fits(self._client_id, (asked.client_id,))
            and any_fits(self._host, (asked.client_host, asked.client_host.removeprefix("/")))
            and any_fits(self._member_id, asked.member_ids)
            and any_fits(self._instance_id, asked.instance_ids)
            and (self._topic is None or any_fits(self._topic, asked.topics))
            and (not self._asks_for_group or any(self._fits_group(asked, name) for name in asked.group_ids))
            and (not self._is_first_connection or self._is_first(asked))
        )

    def groups(self, asked: Asked) -> list[str]:
        """The groups of a request that fit; all of them where a rule says nothing of groups."""
        if not self._asks_for_group:
            return list(asked.group_ids)
        return [group_id for group_id in asked.group_ids if self._fits_group(asked, group_id)]

    @property
    def _asks_for_group(self) -> bool:
        return self._looks_at_group or self._group is not None or self._generation is not None

    def _fits_group(self, asked: Asked, group_id: str) -> bool:
        if self._group is not None and not self._group(group_id):
            return False
        if not self._looks_at_group and (self._generation is None or asked.named_generation is not None):
            return self._generation is None or self._generation(asked.named_generation or 0)
        if not asked.is_served(group_id):
            return False
        view = asked.view(group_id)
        return self._fits_generation(asked, view) and self._fits_view(asked, view)

    def _fits_generation(self, asked: Asked, view: GroupView | None) -> bool:
        if self._generation is None:
            return True
        if asked.named_generation is not None:
            return self._generation(asked.named_generation)
        return view is not None and self._generation(view.generation_id)

    def _fits_view(self, asked: Asked, view: GroupView | None) -> bool:
        if self._state is not None and not self._state(DEAD if view is None else view.state):
            return False
        if self._members is not None and not self._members(0 if view is None else len(view.members)):
            return False
        sender = None if view is None else asked.sender(view)
        if self._first_join is not None and self._first_join is not (sender is None):
            return False
        if self._role is None:
            return True
        if view is None or sender is None:
            return False
        return (sender.name.member_id == view.leader_id) is (self._role == "leader")

    def _is_first(self, asked: Asked) -> bool:
        if len(self._first_of) >= MOST_CLIENTS and asked.client_id not in self._first_of:
            return False
        first = self._first_of.setdefault(asked.client_id, asked.connection_id)
        return first == asked.connection_id


def _keys(match: Match) -> frozenset[int]:
    keys = frozenset(API_BY_NAME.values())
    if match.api is not None:
        names = known_names(match.api, API_BY_NAME, "/match/api", "a Kafka API")
        keys = frozenset(API_BY_NAME[name] for name in names)
    for field, carriers in CARRIED_BY.items():
        if getattr(match, field) is not None:
            carried = frozenset(key for key in keys if key in carriers)
            if not carried:
                raise impossible(
                    f"/match/{field}", f"{_named(keys)} carries no {field}: it would never match"
                )
            keys = carried
    version = _numbers(match.version, "version")
    if version is not None:
        served = frozenset(key for key in keys if any(map(version, _versions(key))))
        if not served:
            ranges = ", ".join(f"{APIS[key].name} has {_range(key)}" for key in sorted(keys)[:3])
            raise impossible("/match/version", f"no such version is served: {ranges}")
        keys = served
    return keys


def _versions(key: int) -> range:
    versions = APIS[key].versions
    return range(versions.first, versions.last + 1)


def _range(key: int) -> str:
    return f"{APIS[key].versions.first} to {APIS[key].versions.last}"


def _named(keys: frozenset[int]) -> str:
    names = sorted(APIS[key].name for key in keys)
    return names[0] if len(names) == 1 else f"None of {', '.join(names[:5])}"


def _names(names: Text | None, field: str) -> _Names:
    return None if names is None else names_pattern(names, f"/match/{field}")


def _numbers(number: Number | None, field: str) -> _Numbers:
    return None if number is None else number_pattern(number, f"/match/{field}")


def _errors(names: Text) -> frozenset[int]:
    found = known_names(names, ErrorCode.__members__, "/match/error", "a Kafka error")
    return frozenset(int(ErrorCode[name]) for name in found)


def error_of(error: str | int) -> ErrorCode:
    """An error by its name or number. Raises Problem (bad-request)."""
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except KeyError:
        raise unknown_name(str(error), ErrorCode.__members__, "/do/error", "a Kafka error") from None
    except ValueError:
        codes = f"{min(ErrorCode)} to {max(ErrorCode)}"
        raise wrong("/do/error", f"{error} is not the code of a Kafka error ({codes})") from None
