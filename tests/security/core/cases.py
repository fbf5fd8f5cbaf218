"""Sets of ACLs, questions about them, and the decisions of Kafka's own authorizer."""

import json
import lzma
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from coordinator.security.core.authorizer import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Decision
from coordinator.security.core.principal import Principal, parse_principal

RECORDING: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "decisions-4.4.0.jsonl.xz")

NAMES: Final = (
    *("orders", "orders-eu", "orders-us", "ord", "o", "billing", "b", "hardcode", "hard", "kafka-cluster"),
    *("*", "*", "*", "*x", "!abc", "!abd", "ä", "\U0001d11e", "\U0001d11ex", "\uffee"),
)
TYPES: Final = (*(ResourceType.TOPIC,) * 6, ResourceType.GROUP, ResourceType.CLUSTER)
PATTERNS: Final = (PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)
PRINCIPALS: Final = ("User:alice", "User:alice", "User:bob", "User:*", "Group:alice", "User:CN=a:b,O=c")
CLIENTS: Final = tuple(each for each in PRINCIPALS if each != "User:*")
"""Kafka's authorizer fails for a client of that name."""
HOSTS: Final = (
    *(
        "*",
        "*",
        "*",
        "*",
        "*",
        "*",
        "*",
        "127.0.0.1",
        "10.0.0.9",
        "10.0.0.0/8",
        "127.0.0.0/8",
        "0:0:0:0:0:0:0:1",
        "::1",
        "::/0",
    ),
    *("::1/128", "10.0.0/8"),
)
CLIENT_HOSTS: Final = ("127.0.0.1", "10.0.0.9", "10.0.0.255", "0:0:0:0:0:0:0:1")
OPERATIONS: Final = tuple(AclOperation)[AclOperation.ALL :]
PERMISSIONS: Final = (AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)
SUPER_USERS: Final = ("", "", "", "User:bob;User:admin")


class Question(NamedTuple):
    """An authorization request."""

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str


class Case(NamedTuple):
    """A set of ACLs and questions about it. `writers` ask whether any topic is writable for them."""

    super_users: str
    allow_if_none: bool
    acls: list[AclBinding]
    asked: list[Question]
    writers: list[tuple[Principal, str]]

    @property
    def super_principals(self) -> frozenset[Principal]:
        """Who may do everything."""
        return frozenset(map(parse_principal, filter(None, self.super_users.split(";"))))

    def in_json(self) -> dict[str, Any]:
        """As the program in Java reads it."""
        return {
            "super_users": self.super_users,
            "allow_if_none": self.allow_if_none,
            "acls": self.acls,
            "asked": [(str(each.principal), *each[1:]) for each in self.asked],
            "writers": [(str(principal), host) for principal, host in self.writers],
        }


class Answers(NamedTuple):
    """What Kafka decided, None where its authorizer fails; the lines of its audit log where they were kept."""

    decisions: list[Decision | None]
    writers: list[bool | None]
    lines: list[str]


def random_case(choice: random.Random) -> Case:
    """One to ten ACLs, and questions about them."""
    few = choice.sample(NAMES, 4)
    acls = {
        AclBinding(
            choice.choice(TYPES),
            choice.choice(few),
            choice.choice(PATTERNS),
            choice.choice(PRINCIPALS),
            choice.choice(HOSTS),
            choice.choice(
                (
                    *OPERATIONS,
                    *(AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER) * 6,
                )
            ),
            choice.choice(PERMISSIONS),
        )
        for _ in range(choice.randrange(1, 11))
    }
    asked = [
        Question(
            parse_principal(choice.choice(CLIENTS)),
            choice.choice(CLIENT_HOSTS),
            choice.choice(
                (*OPERATIONS[1:], *(AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE) * 8)
            ),
            choice.choice(TYPES),
            choice.choice((*few * 8, *NAMES)),
        )
        for _ in range(6)
    ]
    writers = [(parse_principal(choice.choice(CLIENTS)), choice.choice(CLIENT_HOSTS)) for _ in range(2)]
    return Case(choice.choice(SUPER_USERS), choice.random() < 0.3, sorted(acls), asked, writers)


_WORDS: Final = tuple(dict.fromkeys((*NAMES, *PRINCIPALS, *HOSTS, *CLIENT_HOSTS, *SUPER_USERS)))
"""What a recording names by number."""
_OTHERS: Final = (SUPER_USER, DEFAULT_ALLOW, DEFAULT_DENY)


def write(recorded: Iterable[tuple[Case, dict[str, Any]]], lines_kept: int) -> None:
    """Write a recording of cases with the answers that the Java program printed.

    `lines_kept` is the number of cases with lines of the audit log.
    """
    with lzma.open(RECORDING, "wt", preset=9 | lzma.PRESET_EXTREME, encoding="utf-8") as lines:
        for number, (case, answer) in enumerate(recorded):
            decided = [None if each is None else each[:2] for each in answer["decisions"]]
            said = [each[2] for each in answer["decisions"] if each] if number < lines_kept else []
            packed = [
                [_numbers(each) for each in ([case.super_users, case.allow_if_none], *case.acls)],
                [_numbers((str(each.principal), *each[1:])) for each in case.asked],
                [_numbers((str(principal), host)) for principal, host in case.writers],
                *(decided, answer["writers"], said),
            ]
            lines.write(json.dumps(packed, separators=(",", ":")) + "\n")


def _numbers(values: Sequence[object]) -> list[int]:
    return [_WORDS.index(value) if isinstance(value, str) else int(value) for value in values]  # type: ignore[call-overload]


def read() -> Iterator[tuple[Case, Answers]]:
    """The recording."""
    with lzma.open(RECORDING, "rt", encoding="utf-8") as lines:
        for line in lines:
            (settings, *packed), asked, writers, decided, may_write, said = json.loads(line)
            acls = [
                AclBinding(
                    ResourceType(one[0]),
                    _WORDS[one[1]],
                    PatternType(one[2]),
                    _WORDS[one[3]],
                    _WORDS[one[4]],
                    AclOperation(one[5]),
                    AclPermissionType(one[6]),
                )
                for one in packed
            ]
            case = Case(
                _WORDS[settings[0]],
                bool(settings[1]),
                acls,
                [
                    Question(
                        parse_principal(_WORDS[one[0]]),
                        _WORDS[one[1]],
                        AclOperation(one[2]),
                        ResourceType(one[3]),
                        _WORDS[one[4]],
                    )
                    for one in asked
                ],
                [(parse_principal(_WORDS[one[0]]), _WORDS[one[1]]) for one in writers],
            )
            yield case, Answers([_decision(one, acls) for one in decided], may_write, said)


def _decision(packed: list[Any] | None, acls: list[AclBinding]) -> Decision | None:
    if packed is None:
        return None
    allowed, number = packed
    decision = _OTHERS[-1 - number] if number < 0 else Decision(allowed, acls[number])
    assert decision.allowed is allowed
    return decision
