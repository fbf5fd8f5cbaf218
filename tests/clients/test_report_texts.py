"""The texts of a test report, from responses of a daemon that a test writes."""

from collections.abc import Iterator

import pytest
from groupd_client import Groupd
from pytest_groupd.report_texts import format_explanation, format_offsets

from tests.cli.control_answers import description, finding, offsets
from tests.cli.fake_daemon import FakeDaemon


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon().running() as daemon:
        daemon.values["GET /v1/namespaces/t-1"] = {"name": "t-1", "bootstrap": "127.0.0.1:9092"}
        yield daemon


def test_each_action_of_an_explanation_has_its_call(daemon: FakeDaemon) -> None:
    daemon.values["GET /v1/namespaces/t-1/groups/billing/explain"] = {
        "detail": "billing is Stable.",
        "findings": [
            finding("billing", "alice"),
            finding("billing", "bob", hint="Expire one"),
            finding("billing", "carol", hint="Expire one"),
            finding("billing", "bob", hint="Expire one"),
            finding("billing", "dave", hint="Wait", action=None),
            finding("billing", "erin", operation="something_new"),
        ],
    }
    with Groupd(daemon.url) as groupd:
        lines = format_explanation(groupd.open_namespace("t-1"), "billing").splitlines()
    assert [line for line in lines if line.startswith("?")] == [
        '? Expire alice: broker.group("billing").member("alice").expire()',
        '? Expire one: broker.group("billing").member("bob").expire()',
        '? Expire one: broker.group("billing").member("carol").expire()',
        "? Wait",
    ]


def test_a_group_without_known_commits_may_have_committed(daemon: FakeDaemon) -> None:
    """A daemon knows no commits with `oracle.commits` off, or after its start."""
    daemon.values |= {
        "GET /v1/namespaces/t-1/groups/billing": description(),
        "GET /v1/namespaces/t-1/groups/billing/offsets": offsets(),
        "GET /v1/namespaces/t-1/groups/billing/commits": {"commits": []},
    }
    with Groupd(daemon.url) as groupd:
        lines = format_offsets(groupd.open_namespace("t-1"), "billing").splitlines()
    assert any("committed 41" in line for line in lines)
    assert lines[-1] == "no commits are known"
