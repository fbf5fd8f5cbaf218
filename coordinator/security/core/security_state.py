"""ACLs and credentials of the daemon, and the document that stores them (security.json)."""

import base64
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeVar

from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    sort_acls,
    why_inconsistent,
)
from coordinator.security.core.sasl_mechanisms import ScramCredential, ScramMechanism

VERSION: Final = 1

_ACL_FIELDS: Final = (
    *("resource_type", "resource_name", "pattern_type"),
    *("principal", "host", "operation", "permission"),
)
_SCRAM_FIELDS: Final = ("user", "mechanism", "salt", "stored_key", "server_key", "iterations")

ScramUser = tuple[str, ScramMechanism]
Found = TypeVar("Found")
Number = TypeVar("Number", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class SecurityState:
    """All ACLs and credentials at one time."""

    acls: frozenset[AclBinding] = frozenset()
    scram: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)

    def to_document(self) -> dict[str, object]:
        """Return the JSON form."""
        users = sorted(self.scram, key=lambda user: (user[0], user[1]))
        return {
            "version": VERSION,
            "acls": [_encode_acl(acl) for acl in sort_acls(self.acls)],
            "scram": [_encode_scram(user, self.scram[user]) for user in users],
        }

    @classmethod
    def from_document(cls, document: object) -> "SecurityState":
        """Parse a document.

        Raises:
            ValueError: the document is malformed; the text names the position and contains no secret.
        """
        if not isinstance(document, dict):
            raise ValueError("the file is not a JSON object")
        if document.get("version") != VERSION:
            raise ValueError(f"version {document.get('version')!r} is not {VERSION}")
        _check_names(document, ("version", "acls", "scram"))
        return cls(
            frozenset(_parse_entries(document, "acls", _ACL_FIELDS, _parse_acl, lambda acl: acl)),
            dict(_parse_entries(document, "scram", _SCRAM_FIELDS, _parse_scram, lambda found: found[0])),
        )


def _encode_acl(acl: AclBinding) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def _encode_scram(user: ScramUser, credential: ScramCredential) -> dict[str, object]:
    name, mechanism = user
    return {
        "user": name,
        "mechanism": mechanism.mechanism_name,
        "salt": _encode_base64(credential.salt),
        "stored_key": _encode_base64(credential.stored_key),
        "server_key": _encode_base64(credential.server_key),
        "iterations": credential.iterations,
    }


def _parse_entries(
    document: Mapping[str, Any],
    name: str,
    fields: Collection[str],
    read: Callable[[Mapping[str, Any]], Found],
    key: Callable[[Found], Hashable],
) -> Iterator[Found]:
    """Parse a list of objects with these fields, unique by key."""
    entries = document.get(name)
    if not isinstance(entries, list):
        raise ValueError(f"{name}: it must be a list")
    first: dict[Hashable, int] = {}
    for number, entry in enumerate(entries):
        place = f"{name}[{number}]"
        if not isinstance(entry, dict):
            raise ValueError(f"{place}: it must be a JSON object")
        try:
            found = read(entry)
            _check_names(entry, fields)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        except KeyError as error:
            raise ValueError(f"{place}: {error} is missing") from error
        if first.setdefault(key(found), number) != number:
            raise ValueError(f"{place}: it repeats {name}[{first[key(found)]}]")
        yield found


def _check_names(entry: Mapping[str, object], known: Collection[str]) -> None:
    """Reject unknown fields, which might change the meaning of the known ones.

    Raises:
        ValueError: a field is unknown.
    """
    if len(entry) > len(known):
        raise ValueError(f"{next(name for name in entry if name not in known)!r} is not known")


def _parse_acl(entry: Mapping[str, Any]) -> AclBinding:
    acl = AclBinding(
        _parse_enum(ResourceType, entry, "resource_type"),
        _parse_text(entry, "resource_name"),
        _parse_enum(PatternType, entry, "pattern_type"),
        _parse_text(entry, "principal"),
        _parse_text(entry, "host"),
        _parse_enum(AclOperation, entry, "operation"),
        _parse_enum(AclPermissionType, entry, "permission"),
    )
    why = why_inconsistent(acl)
    if why is not None:
        raise ValueError(why)
    return acl


def _parse_scram(entry: Mapping[str, Any]) -> tuple[ScramUser, ScramCredential]:
    mechanisms = {each.mechanism_name: each for each in ScramMechanism}
    mechanism = mechanisms.get(_parse_text(entry, "mechanism"))
    if mechanism is None:
        raise ValueError(f"mechanism: {entry['mechanism']!r} must be one of {', '.join(mechanisms)}")
    iterations = entry["iterations"]
    if type(iterations) is not int or iterations < 1:
        raise ValueError("iterations: it must be a number above 0")
    credential = ScramCredential(
        _parse_base64(entry, "salt"),
        _parse_base64(entry, "stored_key"),
        _parse_base64(entry, "server_key"),
        iterations,
    )
    return (_parse_text(entry, "user"), mechanism), credential


def _parse_enum(kind: type[Number], entry: Mapping[str, Any], name: str) -> Number:
    try:
        return kind[_parse_text(entry, name)]
    except KeyError:
        if name not in entry:
            raise
        raise ValueError(f"{name}: {entry[name]!r} is not known") from None


def _parse_text(entry: Mapping[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str):
        raise ValueError(f"{name}: it must be a string")
    return value


def _parse_base64(entry: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(_parse_text(entry, name), validate=True)
    except ValueError:
        raise ValueError(f"{name}: it must be base64") from None  # the value must not appear in messages


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
