"""Decisions of the authorizer, compared with Kafka's own authorizer and with a second implementation of its
rules."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    find_range,
    sort_acls,
)
from coordinator.security.core.authorizer import (
    DEFAULT_ALLOW,
    DEFAULT_DENY,
    SUPER_USER,
    AclIndex,
    Authorizer,
    Decision,
)
from coordinator.security.core.principal import Principal, parse_principal
from tests.security.core.cases import (
    CLIENT_HOSTS,
    CLIENTS,
    HOSTS,
    NAMES,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    PRINCIPALS,
    TYPES,
    Answers,
    Case,
    Question,
    read,
)

Recording = list[tuple[Case, Answers]]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return list(read())


def authorizer(case: Case) -> Authorizer:
    return Authorizer(AclIndex(case.acls), case.super_principals, case.allow_if_none)


def test_every_decision_and_its_rule_are_those_of_kafka(recording: Recording) -> None:
    fails = 0
    for case, answers in recording:
        ours = authorizer(case)
        for question, theirs in zip(case.asked, answers.decisions, strict=True):
            decision = ours.decide(*question)
            if theirs is None:
                fails += 1
                assert question.resource_name < "*"
            elif question.resource_name < "*":
                # Kafka comes by the ACLs of such a name twice, and names the one it has met last.
                assert decision.allowed is theirs.allowed, (case, question)
            else:
                assert decision == theirs, (case, question)
    assert fails < 300


def test_every_idempotent_writer_is_told_what_kafka_says(recording: Recording) -> None:
    for case, answers in recording:
        ours = authorizer(case)
        told = [ours.may_write_any_topic(*writer) for writer in case.writers]
        assert told == answers.writers, case


def test_rules_are_named_as_in_the_audit_log_of_kafka(recording: Recording) -> None:
    said = 0
    for case, answers in recording:
        ours = authorizer(case)
        asked = [each for each, theirs in zip(case.asked, answers.decisions, strict=True) if theirs]
        for question, line in zip(asked if answers.lines else (), answers.lines, strict=True):
            decision = ours.decide(*question)
            assert (" is Allowed " in line) is decision.allowed
            if question.resource_name >= "*":
                assert line.endswith(f" based on rule {decision.rule_text}")
                said += 1
    assert said >= 200


def test_there_are_cases_of_every_kind(recording: Recording) -> None:
    decisions = [decision for _, answers in recording for decision in answers.decisions if decision]
    for usual in (SUPER_USER, DEFAULT_ALLOW, DEFAULT_DENY):
        assert decisions.count(usual) >= 500
    acls = [decision for decision in decisions if isinstance(decision.rule, AclBinding)]
    assert min(sum(each.allowed is allowed for each in acls) for allowed in (True, False)) >= 400
    writers = [told for _, answers in recording for told in answers.writers]
    assert min(writers.count(told) for told in (True, False)) >= 1000


def naive(case: Case, question: Question) -> tuple[bool, set[AclBinding]]:
    """Whether it is allowed, and the ACLs that may be named for it: all of them looked at, one by one."""
    principal, host, operation, resource_type, name = question
    if principal in case.super_principals:
        return True, set()
    named = [acl for acl in case.acls if acl.resource_type == resource_type and stands_for(acl, name)]
    fitting = [acl for acl in named if is_about(acl, principal, host) and covers(acl, operation)]
    denying = {acl for acl in fitting if acl.permission is AclPermissionType.DENY}
    if denying or fitting:
        return not denying, denying or set(fitting)
    return case.allow_if_none and not named, set()


def stands_for(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name == name or (acl.resource_name == "*" and not name.startswith("*"))


def is_about(acl: AclBinding, principal: Principal, host: str) -> bool:
    if acl.principal not in (str(principal), "User:*"):
        return False
    found = find_range(acl.host)
    return acl.host in ("*", host) or (found is not None and found.contains(host))


def covers(acl: AclBinding, operation: AclOperation) -> bool:
    if acl.operation in (AclOperation.ALL, operation):
        return True
    if acl.permission is AclPermissionType.DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return acl.operation.name in ("READ", "WRITE", "DELETE", "ALTER")
    return operation is AclOperation.DESCRIBE_CONFIGS and acl.operation is AclOperation.ALTER_CONFIGS


bindings = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES) | st.text(min_size=1, max_size=3),
    st.sampled_from(PATTERNS),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(PERMISSIONS),
)
sets = st.lists(bindings, unique=True, max_size=25)
questions = st.builds(
    Question,
    st.sampled_from(CLIENTS).map(parse_principal),
    st.sampled_from(CLIENT_HOSTS),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(TYPES),
    st.sampled_from(NAMES) | st.text(max_size=4),
)


@given(sets, st.sampled_from(("", "User:bob")), st.booleans(), st.lists(questions, min_size=1, max_size=8))
def test_the_index_decides_as_all_acls_looked_at_one_by_one(
    acls: list[AclBinding], super_users: str, allow_if_none: bool, asked: list[Question]
) -> None:
    case = Case(super_users, allow_if_none, acls, asked, [])
    ours = authorizer(case)
    for question in asked:
        decision = ours.decide(*question)
        allowed, rules = naive(case, question)
        assert decision.allowed is allowed
        assert decision.rule in rules if rules else isinstance(decision.rule, str)


@given(sets, sets, st.lists(questions, min_size=1, max_size=8))
def test_an_index_that_was_changed_decides_as_a_new_one(
    before: list[AclBinding], after: list[AclBinding], asked: list[Question]
) -> None:
    index = AclIndex(before)
    epoch = index.epoch
    changed = Authorizer(index)
    answers(changed, asked)  # a stale cache would return these again
    index.apply_changes(set(after) - set(before), set(before) - set(after))
    assert index.epoch != epoch
    assert answers(changed, asked) == answers(Authorizer(AclIndex(after)), asked)


def answers(ours: Authorizer, asked: Iterable[Question]) -> list[Decision]:
    return [ours.decide(*question) for question in asked]


def test_as_many_names_as_anybody_likes_are_told_apart() -> None:
    acl = AclBinding(
        ResourceType.GROUP,
        "1",
        PatternType.PREFIXED,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    ours = Authorizer(AclIndex([acl]))
    for _ in range(2):
        for number in range(20_000):
            decision = ours.decide(
                parse_principal("User:a"), "127.0.0.1", AclOperation.READ, ResourceType.GROUP, str(number)
            )
            assert decision.allowed is str(number).startswith("1")


def test_acls_are_listed_as_kafka_keeps_them() -> None:
    def acl(name: str, operation: AclOperation = AclOperation.READ) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", operation, AclPermissionType.ALLOW
        )

    wanted = [acl("orders-eu"), acl("orders"), acl("orders", AclOperation.WRITE), acl("\U0001d11e"), acl("*")]
    # Java compares the halves of a character beyond 16 bits: the note sorts before U+FFEE.
    assert sort_acls([*reversed(wanted), acl("\uffee")]) == [
        acl("\uffee"),
        acl("\U0001d11e"),
        *wanted[:3],
        acl("*"),
    ]
