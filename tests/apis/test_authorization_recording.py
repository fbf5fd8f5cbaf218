"""Each API answers clients with some rights as the recording has it, in every version."""

import logging
from collections import defaultdict
from collections.abc import Iterator

import pytest

from protocol.apis import APIS, Api
from tests.apis.authorization_recording import (
    CASE_FIELDS,
    Case,
    Rights,
    find_variant,
    play_case,
    read,
)

RECORDED = read()
AUDIT_LOG = logging.getLogger("kafka.authorizer.logger")


@pytest.fixture(autouse=True)
def _log_allowed_operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(AUDIT_LOG, "propagate", False)
    before = AUDIT_LOG.level
    AUDIT_LOG.setLevel(logging.DEBUG)
    yield
    AUDIT_LOG.setLevel(before)


def list_differences(played: Case, recorded: Case) -> list[str]:
    """Return the fields that differ, with both values."""
    return [
        f"{field}: {value}, recorded: {expected}"
        for field, value, expected in zip(CASE_FIELDS.split(), played, recorded, strict=True)
        if value != expected
    ]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_answers_and_handled_requests_are_those_of_the_recording(api: Api) -> None:
    decided: dict[tuple[int, str], set[str]] = defaultdict(set)
    named: dict[tuple[int, str], set[str]] = defaultdict(set)
    for case in RECORDED[api.name]:
        variant = find_variant(api, case)
        played, rights = await play_case(api, case.version, variant, case.granted, in_steps=False)
        assert not list_differences(played, case), case[:4]
        decided[case.version, case.variant].update(rights)
        named[case.version, case.variant].update(Rights(case.granted).named)
    for key, rights in decided.items():
        assert rights <= named[key], f"{key}: the recording lacks cases for a decision of the guard"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_a_guard_that_waits_at_each_checkpoint_gives_the_same_answers(api: Api) -> None:
    for case in RECORDED[api.name]:
        if case.version == api.versions.last:
            variant = find_variant(api, case)
            played, _ = await play_case(api, case.version, variant, case.granted, in_steps=True)
            assert not list_differences(played, case), case[:4]


def test_the_recording_has_all_apis_and_versions() -> None:
    for api in APIS.values():
        versions = {case.version for case in RECORDED[api.name]}
        assert versions == set(range(api.versions.first, api.versions.last + 1))
