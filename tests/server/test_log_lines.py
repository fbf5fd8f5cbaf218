import typing
from dataclasses import fields

import pytest

from coordinator.group import events
from coordinator.group.events import Event
from coordinator.server.log_lines import LINES, event_line
from protocol.errors import ErrorCode

CLASSES = [
    cls
    for cls in vars(events).values()
    if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
]
EVIL = "g\n[2026] INFO all is well\x1b[2J"


def sample(cls: type[Event], *, filled: bool) -> Event:
    """An event whose texts are hostile; what may be absent is there, or not."""
    values: dict[str, object] = {}
    hints = typing.get_type_hints(cls)
    for entry in fields(cls):
        hint = hints[entry.name]
        if hint is bool:
            values[entry.name] = filled
        elif hint is int:
            values[entry.name] = 7
        elif hint is ErrorCode:
            values[entry.name] = ErrorCode.ILLEGAL_GENERATION
        elif typing.get_origin(hint) is tuple:
            values[entry.name] = (EVIL, "second") if filled else ()
        elif isinstance(hint, type) and issubclass(hint, str) and hint is not str:
            values[entry.name] = next(iter(hint))  # type: ignore[call-overload]
        else:
            values[entry.name] = EVIL if filled or hint is str else None
    return cls(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_event_is_one_line_that_a_client_cannot_forge(cls: type[Event], filled: bool) -> None:
    line = event_line(sample(cls, filled=filled))
    if line is None:
        return
    _, text = line
    assert text.isprintable()
    assert "all is well" in text
    assert "{" not in text


def test_every_line_belongs_to_an_event_and_every_event_was_thought_of() -> None:
    assert set(LINES) == {cls.__name__ for cls in CLASSES}


def test_lines_name_group_member_generation_and_reason() -> None:
    started = events.RebalanceStarted("g", "Stable", 4, events.RebalanceCause.MEMBER_LEFT, "m left")
    line = event_line(started)
    assert line is not None
    for part in ("Preparing to rebalance group g", "Stable", "4", "m left"):
        assert part in line[1]


def test_long_names_and_lists_are_cut() -> None:
    long = events.MembersEvicted("g" * 5000, tuple(f"member-{number}" for number in range(1000)), "join")
    line = event_line(long)
    assert line is not None
    assert len(line[1]) < 1000
    assert "980 more" in line[1]
