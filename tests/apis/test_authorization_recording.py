"""Each API answers clients with some rights as the recording has it, in every version."""

import logging

import pytest

from protocol.apis import APIS, Api
from tests.apis.authorization_recording import Case, find_variant, play_case, read, record_api

RECORDED = read()


@pytest.fixture(autouse=True)
def _log_allowed_operations(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_answers_and_handled_requests_are_those_of_the_recording(api: Api) -> None:
    """The cases come from the decisions of the guard: a decision that is new is missing in the recording."""
    assert _show(await record_api(api)) == _show(RECORDED[api.name])


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_a_guard_that_waits_at_each_checkpoint_gives_the_same_answers(api: Api) -> None:
    newest = [case for case in RECORDED[api.name] if case.version == api.versions.last]
    for case in newest:
        played, _ = await play_case(api, case.version, find_variant(api, case), case.granted, in_steps=True)
        assert played == case


def test_the_recording_has_all_apis_and_versions() -> None:
    for api in APIS.values():
        versions = {case.version for case in RECORDED[api.name]}
        assert versions == set(range(api.versions.first, api.versions.last + 1))


def _show(cases: list[Case]) -> dict[tuple[int, str, str], Case]:
    return {(case.version, case.variant, case.granted): case for case in cases}
