"""Attacks on every list of every request, generated from the declarations; the attacks must find planted faults."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Final, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import parse_request_header
from tests.hostile.attacks import faulty_daemon
from tests.hostile.attacks.attack import (
    EXTENDED_SIZE,
    SAMPLE_SIZE,
    Attack,
    AttackKind,
    AttackSize,
    generate_attacks,
    sample_attacks,
)
from tests.hostile.attacks.attack_runner import AttackResult, AttackRunner, filled_daemon
from tests.hostile.attacks.expensive_state import EXTENDED_STATE, SAMPLE_STATE, StateSize
from tests.hostile.attacks.field_values import DaemonState, FieldValues
from tests.hostile.attacks.list_fields import find_list_fields
from tests.hostile.attacks.request_builder import MAX_TEXT, RequestBuilder, count_elements
from tests.hostile.siege.attacker import frame

SEED: Final = int(os.environ.get("SEED", "1"))
SAMPLED: Final = 20
TINY_SIZE: Final = AttackSize(0.005, 100_000)
TINY_STATE: Final = StateSize(3, 4, 3, 2, 1, 3, 3)


def declared_lists(cls: type[Struct], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The lists of a message in any version, read from its type hints alone."""
    for name, hint in get_type_hints(cls, include_extras=True).items():
        pending, is_list = [hint], False
        while pending:
            part = pending.pop()
            is_list = is_list or get_origin(part) is list
            if get_origin(part) in (Annotated, list, UnionType):
                pending += get_args(part)
            elif (
                isinstance(part, type)
                and issubclass(part, Struct)
                and part.__module__.startswith("protocol.messages")
            ):
                yield from declared_lists(part, (*path, name))
        if is_list:
            yield (*path, name)


def test_every_list_of_every_api_is_attacked() -> None:
    declared = {(api.name, path) for api in APIS.values() for path in declared_lists(api.request)}
    attacked = {
        (attack.list_field.api.name, attack.list_field.path, attack.kind) for attack in generate_attacks(SEED)
    }
    for kind in (AttackKind.REPEAT, AttackKind.DISTINCT):
        assert {(name, path) for name, path, attack_kind in attacked if attack_kind is kind} == declared
    assert {api.name for api in APIS.values() if api.max_elements} == {name for name, _ in declared}


def test_requests_are_as_large_as_their_size_allows() -> None:
    for attack in generate_attacks(SEED):
        api, version = attack.list_field.api, attack.version
        request = RequestBuilder(attack, TINY_SIZE, FieldValues(DaemonState())).build()
        data = frame(request, version)[4:]
        elements = count_elements(request, version)
        most = api.max_elements * TINY_SIZE.element_share
        assert elements <= most + len(attack.list_field.path) + 1, attack
        if attack.kind is AttackKind.ALL:
            assert elements == len(attack.list_field.path) - 1, attack
        elif attack.kind is AttackKind.LONG:
            assert len(data) >= MAX_TEXT * elements / 2, attack
        else:
            assert elements >= most / 4, attack
        position = parse_request_header(data).body_position
        assert decode(api.request, version, data, position) == request, attack


def test_a_repeated_element_is_the_same_and_distinct_ones_differ() -> None:
    state = DaemonState(groups=["known"])
    (field,) = (each for each in find_list_fields() if each.api.name == "DescribeGroups")
    lists = {
        kind: RequestBuilder(Attack(field, 5, kind), TINY_SIZE, FieldValues(state)).build().groups
        for kind in (AttackKind.REPEAT, AttackKind.DISTINCT)
    }
    assert set(lists[AttackKind.REPEAT]) == {"known"}
    assert lists[AttackKind.DISTINCT][0] == "known"
    assert len(set(lists[AttackKind.DISTINCT])) == len(lists[AttackKind.DISTINCT])


async def play_all(
    directory: Path, attacks: list[Attack], size: AttackSize, state: StateSize
) -> list[AttackResult]:
    async with filled_daemon(directory, state) as runner:
        results = [await runner.play(attack, size) for attack in attacks]
        assert "Traceback" not in runner.read_log()
    return results


def violations(results: list[AttackResult]) -> list[str]:
    return [violation for result in results for violation in result.find_violations()]


async def test_other_clients_work_during_a_sample_of_attacks(tmp_path: Path) -> None:
    """SEED=7 in the environment draws another sample."""
    attacks = sample_attacks(SEED, SAMPLED)
    assert not violations(await play_all(tmp_path, attacks, SAMPLE_SIZE, SAMPLE_STATE))


@pytest.mark.timeout(1800)
async def test_other_clients_work_during_an_attack_on_each_list(tmp_path: Path) -> None:
    """`make nightly` plays all attacks of this size, and `make soak` those of the largest size."""
    attacks = sample_attacks(SEED, len(find_list_fields()))
    assert not violations(await play_all(tmp_path, attacks, EXTENDED_SIZE, EXTENDED_STATE))


def find_attack(api_name: str) -> Attack:
    return next(
        attack
        for attack in generate_attacks(SEED)
        if attack.list_field.api.name == api_name and attack.kind is AttackKind.DISTINCT
    )


async def play_one(runner: AttackRunner, api_name: str) -> list[str]:
    return (await runner.play(find_attack(api_name), SAMPLE_SIZE)).find_violations()


async def test_attacks_find_planted_faults(tmp_path: Path) -> None:
    async with filled_daemon(tmp_path, TINY_STATE, module=faulty_daemon.MODULE) as runner:
        assert await play_one(runner, "ListGroups") == []
        slow = await play_one(runner, "DescribeGroups")
        large = await play_one(runner, "FindCoordinator")
        leaking = await play_one(runner, "DeleteGroups")
    assert all(line.startswith("DescribeGroups v6 groups: distinct: ") for line in slow)
    assert any(faulty_daemon.compare_all_names.__name__ in line for line in slow)
    assert any("memory grew by" in line for line in large)
    assert not any("after the connection had closed" in line for line in large)
    assert any("after the connection had closed" in line for line in leaking)
