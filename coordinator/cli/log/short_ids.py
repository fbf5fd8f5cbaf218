"""Member ids for a narrow place: as much of them as it takes to tell them apart."""

import re
from collections.abc import Iterable
from typing import Final

_UUID: Final = re.compile(
    r"(.*)([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.DOTALL
)
_GROUPS: Final = 5


def short_ids(member_ids: Iterable[str]) -> dict[str, str]:
    """What to call each member among these.

    A coordinator makes a member id of the client's id (or the instance id of a static member) and a UUID. Of the
    UUID the first of its five groups stays, more where two members would be called the same. Other ids stay whole.
    """
    whole = set(member_ids)
    names: dict[str, str] = {}
    for length in range(1, _GROUPS):
        owners: dict[str, list[str]] = {}
        for member_id in whole - names.keys():
            owners.setdefault(_shortened(member_id, length), []).append(member_id)
        names |= {owned[0]: name for name, owned in owners.items() if len(owned) == 1}
    return {member_id: names.get(member_id, member_id) for member_id in whole}


def _shortened(member_id: str, length: int) -> str:
    match = _UUID.fullmatch(member_id)
    if match is None:
        return member_id
    client_id, *groups = match.groups()
    return f"{client_id}{'-'.join(groups[:length])}-…"
