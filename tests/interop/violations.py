"""The oracles of groupd report neither a violation nor a notice about the stock clients of a test.

A test that causes a notice on purpose has a mark: `pytest.mark.violates("zombie_commit")`. A violation is always a
failure. Whether heartbeats come in time depends on the machine, and is not judged.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.interop.broker import Broker

NOTICES: Final = frozenset({"zombie_commit", "commit_went_back", "flapping", "commit_beyond_end"})
"""The oracles that a mark may name: they find notices only."""
_BY_THE_MACHINE: Final = "starved_heartbeat"
_BROKERS: Final = ("broker", "mortal_broker")


@pytest.fixture(autouse=True)
def nothing_violated(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check each test with a broker, after its members have left."""
    brokers: list[Broker] = [
        request.getfixturevalue(name) for name in _BROKERS if name in request.fixturenames
    ]
    before = [broker.violations() for broker in brokers]
    yield
    said = {oracle for mark in request.node.iter_markers("violates") for oracle in mark.args}
    assert said <= NOTICES, f"{said - NOTICES}: the mark `violates` does not accept these"
    for broker, counts in zip(brokers, before, strict=True):
        found = {
            oracle: count
            for oracle, count in broker.violations().items()
            # Counts begin anew with the broker.
            if count and count != counts.get(oracle) and oracle not in (*said, _BY_THE_MACHINE)
        }
        assert not found, f"oracles found something: {found}\n{broker.report()}"
