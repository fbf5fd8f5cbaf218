"""A look at every decoder with inputs that look for new paths through it, the same ones in every run.

`make fuzz` looks longer. What it has found once is in FOUND, so that it stays mended.
"""

import os
from collections.abc import Callable
from typing import Final

import pytest

from protocol.primitives import read_uvarint
from protocol.schema import message_info
from tests.hostile.fuzz.__main__ import all_targets
from tests.hostile.fuzz.connection import PLACES, PLAIN, connection_target
from tests.hostile.fuzz.engine import Finding, Fuzzer
from tests.hostile.fuzz.expressions import expression_targets
from tests.hostile.fuzz.messages import message_targets, other_targets
from tests.hostile.fuzz.stored import stored_targets
from tests.hostile.fuzz.target import Target
from tests.protocol.declared import ALL, name

RUNS: Final = int(os.environ.get("FUZZ_RUNS", "1"))
"""FUZZ_RUNS=50 in the environment looks that many times as long."""
_STORED_RUNS: Final = 150
_MESSAGE_RUNS: Final = 60
_CONNECTION_RUNS: Final = 400
_SECURED_RUNS: Final = 200

STORED: Final = [*stored_targets(), *other_targets(), *expression_targets()]
NEWEST: Final = {name((cls, version)) for cls, version in ALL if version == message_info(cls).versions.last}
MESSAGES: Final = [target for target in message_targets() if target.name in NEWEST]


@pytest.mark.parametrize("target", STORED, ids=lambda target: target.name)
def test_bytes_of_files_batches_and_headers(target: Target) -> None:
    Fuzzer(target, seed=1).run(lambda runs: runs < RUNS * _STORED_RUNS)


@pytest.mark.parametrize("target", MESSAGES, ids=lambda target: target.name)
def test_bytes_of_messages(target: Target) -> None:
    Fuzzer(target, seed=1).run(lambda runs: runs < RUNS * _MESSAGE_RUNS)


@pytest.mark.parametrize("place", PLACES)
def test_frames_into_a_daemon(place: str) -> None:
    wanted = RUNS * (_CONNECTION_RUNS if place == PLAIN else _SECURED_RUNS)
    with connection_target(place) as target:
        Fuzzer(target, seed=1).run(lambda runs: runs < wanted)


_FAR_AHEAD: Final = (
    "00000002000000000000003a0000000002716a618900000000000000000000000003e800000000000003e8"
    "ffffffffffffffffffffffffffff0000000110000000026b027600"
)
FOUND: Final = {
    "a batch beyond the offsets that its segment can hold": ("recovery", _FAR_AHEAD),
}


@pytest.mark.parametrize("what", FOUND)
def test_earlier_findings_of_the_fuzzer_stay_fixed(what: str) -> None:
    wanted, data = FOUND[what]
    (target,) = (target for target in all_targets() if target.name == wanted)
    target.call(bytes.fromhex(data))


def _grows(data: bytes) -> None:
    if len(data) > 20:
        data *= 20_000


def _loops(data: bytes) -> None:
    while data[:1] == b"\x07":
        read_uvarint(data, 0)


def _fails(data: bytes) -> None:
    if data and read_uvarint(data + bytes(5), 0)[0] > 127:
        raise KeyError(data)


@pytest.mark.parametrize("call", [_grows, _loops, _fails])
def test_the_fuzzer_detects_a_broken_invariant(call: Callable[[bytes], None]) -> None:
    target = Target(call.__name__, (b"\x05\x06\x07\x07\x01",), call, ())
    with pytest.raises(Finding):
        Fuzzer(target, seed=1).run(lambda runs: runs < 20_000)
