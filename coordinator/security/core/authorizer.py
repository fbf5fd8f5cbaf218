"""Decide by ACLs whether a principal may perform an operation, and report the deciding ACL.

Source: Kafka's `StandardAuthorizerData`; `Authorizer.authorizeByResourceType` (KIP-679).
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from operator import neg
from typing import Final, NamedTuple

from coordinator.security.core.acl import (
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    HostRange,
    PatternType,
    ResourceType,
    find_range,
)
from coordinator.security.core.principal import USER, Principal, parse_principal

WILDCARD_PRINCIPAL: Final = Principal(USER, "*")

_IMPLIED_OPERATIONS: Final = {
    AclOperation.READ: AclOperation.DESCRIBE,
    AclOperation.WRITE: AclOperation.DESCRIBE,
    AclOperation.DELETE: AclOperation.DESCRIBE,
    AclOperation.ALTER: AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}
"""Permission for the key implies permission for the value."""
_ALL_OPERATIONS: Final = -1
_MAX_CACHED: Final = 16_384
_MAX_CACHED_NAME: Final = 255
"""Decisions on longer resource names, in characters, are not cached."""


class Decision(NamedTuple):
    """A decision. `rule` is the deciding ACL, or the setting that decided without an ACL."""

    allowed: bool
    rule: AclBinding | str

    @property
    def rule_text(self) -> str:
        """The rule in the format of Kafka's audit log. It contains text from clients."""
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={self.rule})"


SUPER_USER: Final = Decision(True, "SuperUser")
DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
DEFAULT_DENY: Final = Decision(False, "DefaultDeny")


class _AclRule(NamedTuple):
    """A precomputed ACL. Rules sort in the order in which Kafka evaluates the ACLs of a pattern."""

    order: tuple[AclOperation, str, str, AclPermissionType]
    acl: AclBinding
    operations: int
    """A bit for each operation that the ACL covers."""
    host: str
    range: HostRange | None
    decision: Decision

    def matches(self, host: str, operation: AclOperation) -> bool:
        """Return whether the ACL covers this operation from this host."""
        if not self.operations >> operation & 1:
            return False
        wanted = self.host
        return wanted in (WILDCARD, host) or (self.range is not None and self.range.contains(host))


_Rules = dict[Principal, list[_AclRule]]
"""The rules of one pattern."""


class _ResourceTypeIndex:
    """The rules for resources of one type."""

    __slots__ = ("_counts", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.lengths: list[int] = []
        """The lengths of the prefixes, longest first."""
        self._counts: Counter[int] = Counter()

    def get_patterns(self, pattern_type: PatternType) -> dict[str, _Rules]:
        """Return the rules by name."""
        return self.prefixed if pattern_type is PatternType.PREFIXED else self.literal

    def count_prefixes(self, length: int, more: int) -> None:
        """Add `more` (1 or -1) to the number of prefixed patterns of a length."""
        before = self._counts[length]
        after = self._counts[length] = before + more
        if not before:
            insort(self.lengths, length, key=neg)
        elif not after:
            self.lengths.remove(length)

    def find_rules(self, name: str) -> list[_Rules]:
        """Return the rules of each pattern that matches a resource name, in Kafka's order."""
        found = []
        rules = self.literal.get(name)
        if rules is not None:
            found.append(rules)
        for length in self.lengths:
            rules = self.prefixed.get(name[:length]) if length <= len(name) else None
            if rules is not None:
                found.append(rules)
        # As in Kafka, the wildcard pattern does not match names that begin with "*".
        rules = None if name.startswith(WILDCARD) else self.literal.get(WILDCARD)
        if rules is not None:
            found.append(rules)
        return found


class AclIndex:
    """An index of ACLs. `epoch` changes with each change of the ACLs and invalidates cached decisions."""

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self.epoch = 0
        self._types = [_ResourceTypeIndex() for _ in ResourceType]
        self.apply_changes(acls, ())

    def apply_changes(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        """Add new ACLs and remove existing ones."""
        for acl in removed:
            self._remove(acl)
        for acl in added:
            self._add(acl)
        self.epoch += 1

    def find_rules(self, resource_type: ResourceType, name: str) -> list[_Rules]:
        """Return the rules of each pattern that matches a resource, in Kafka's order."""
        return self._types[resource_type].find_rules(name)

    def iterate_rules(self, resource_type: ResourceType, principal: Principal) -> Iterator[_AclRule]:
        """Yield every rule for resources of a type that covers this principal or all principals."""
        of_type = self._types[resource_type]
        for patterns in (of_type.literal, of_type.prefixed):
            for rules in patterns.values():
                yield from _select_rules(rules, principal)

    def _add(self, acl: AclBinding) -> None:
        of_type = self._types[acl.resource_type]
        patterns = of_type.get_patterns(acl.pattern_type)
        rules = patterns.get(acl.resource_name)
        if rules is None:
            rules = patterns[acl.resource_name] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                of_type.count_prefixes(len(acl.resource_name), 1)
        insort(rules.setdefault(parse_principal(acl.principal), []), _create_rule(acl))

    def _remove(self, acl: AclBinding) -> None:
        of_type = self._types[acl.resource_type]
        patterns = of_type.get_patterns(acl.pattern_type)
        rules = patterns[acl.resource_name]
        principal = parse_principal(acl.principal)
        rules[principal].remove(_create_rule(acl))
        if not rules[principal]:
            del rules[principal]
        if not rules:
            del patterns[acl.resource_name]
            if acl.pattern_type is PatternType.PREFIXED:
                of_type.count_prefixes(len(acl.resource_name), -1)


class Authorizer:
    """Decides by ACLs, super users and the default for resources without ACLs."""

    def __init__(
        self,
        index: AclIndex,
        super_users: AbstractSet[Principal] = frozenset(),
        allow_if_no_acl: bool = False,
    ) -> None:
        """Create an authorizer.

        Args:
            index: the ACLs.
            super_users: the principals with all permissions (super.users).
            allow_if_no_acl: whether a resource without ACLs is open to all (allow.everyone.if.no.acl.found).
        """
        self.index = index
        self.super_users = super_users
        self.allow_if_no_acl = allow_if_no_acl
        # Clients repeat the same requests. A cached decision takes a third of the time.
        self._cache: dict[tuple[Principal, str, AclOperation, ResourceType, str], Decision] = {}
        self._cache_epoch = index.epoch

    @property
    def epoch(self) -> int:
        """Changes whenever a decision may change."""
        return self.index.epoch

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> Decision:
        """Decide whether a client may perform an operation on a resource. Recent decisions are cached until an ACL
        changes."""
        if self._cache_epoch != self.index.epoch:
            self._cache.clear()
            self._cache_epoch = self.index.epoch
        key = (principal, host, operation, resource_type, resource_name)
        decision = self._cache.get(key)
        if decision is None:
            decision = decide(self.index, self.super_users, self.allow_if_no_acl, *key)
            if len(resource_name) <= _MAX_CACHED_NAME:
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[key] = decision
        return decision

    def may_write_any_topic(self, principal: Principal, host: str) -> bool:
        """Return whether a client may write to at least one topic, existing or not."""
        return may_write_any_topic(self.index, self.super_users, self.allow_if_no_acl, principal, host)


def decide(
    index: AclIndex,
    super_users: AbstractSet[Principal],
    allow_if_no_acl: bool,
    principal: Principal,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    resource_name: str,
) -> Decision:
    """Decide whether a client may perform an operation on a resource: a DENY rule wins over any ALLOW rule.

    `host` is the client's address in the form of `format_java_address`; `resource_name` is the literal name.
    """
    if principal in super_users:
        return SUPER_USER
    applying = index.find_rules(resource_type, resource_name)
    if not applying:
        return DEFAULT_ALLOW if allow_if_no_acl else DEFAULT_DENY
    decision = DEFAULT_DENY
    for rules in applying:
        for rule in _select_rules(rules, principal):
            if rule.matches(host, operation):
                decision = rule.decision
                if not decision.allowed:
                    return decision
    return decision


def may_write_any_topic(
    index: AclIndex,
    super_users: AbstractSet[Principal],
    allow_if_no_acl: bool,
    principal: Principal,
    host: str,
) -> bool:
    """Return whether a client may write to at least one topic, as an idempotent producer must.

    Kafka first evaluates a topic with the name "hardcode"; so does this function. The arguments are those of
    `decide`.
    """
    hardcoded_topic = (principal, host, AclOperation.WRITE, ResourceType.TOPIC, "hardcode")
    if decide(index, super_users, allow_if_no_acl, *hardcoded_topic).allowed:
        return True
    allowed: list[AclBinding] = []
    denied: set[tuple[PatternType, str]] = set()
    for rule in index.iterate_rules(ResourceType.TOPIC, principal):
        if rule.matches(host, AclOperation.WRITE):
            if rule.decision.allowed:
                allowed.append(rule.acl)
            else:
                denied.add((rule.acl.pattern_type, rule.acl.resource_name))
    if (PatternType.LITERAL, WILDCARD) in denied:
        return False
    return any(_is_not_fully_denied(acl, denied) for acl in allowed)


def _is_not_fully_denied(allowed: AclBinding, denied: AbstractSet[tuple[PatternType, str]]) -> bool:
    """Return whether an ALLOW rule covers a name that no DENY rule covers."""
    name = allowed.resource_name
    if allowed.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return True
        if (PatternType.LITERAL, name) in denied:
            return False
    return not any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _select_rules(rules: _Rules, principal: Principal) -> list[_AclRule]:
    """Return the rules that cover the principal, in their order."""
    own, of_everybody = rules.get(principal), rules.get(WILDCARD_PRINCIPAL)
    if own is None:
        return of_everybody or []
    if of_everybody is None or principal == WILDCARD_PRINCIPAL:
        return own
    return sorted(own + of_everybody)


def _create_rule(acl: AclBinding) -> _AclRule:
    allows = acl.permission is AclPermissionType.ALLOW
    operations = _ALL_OPERATIONS if acl.operation is AclOperation.ALL else 1 << acl.operation
    if allows and acl.operation in _IMPLIED_OPERATIONS:
        operations |= 1 << _IMPLIED_OPERATIONS[acl.operation]
    return _AclRule(
        (acl.operation, acl.principal, acl.host, acl.permission),
        acl,
        operations,
        acl.host,
        find_range(acl.host),
        Decision(allows, acl),
    )
