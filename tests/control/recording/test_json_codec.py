"""Values of the core come back as they were."""

from collections import Counter
from typing import Any

import pytest
from msgspec import json

from coordinator.control.recording.forms import BadForm, Forms, Writer, classes, tag_of
from coordinator.group.classic.member import Member
from coordinator.group.member_name import MemberName
from coordinator.group.state import ClassicGroupState
from coordinator.group.timer_key import TimerKind
from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.machine.outcome import Context
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def there_and_back(value: Any) -> Any:
    return Forms().value(json.decode(json.encode(Writer().form(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**63),
        0.5,
        "",
        "$b:not bytes",
        "$",
        "$$ref",
        "\u2028 \U0001f600 \x00",
        b"",
        b"\x00\xff",
        [],
        [1, [2]],
        (),
        ("a", (b"b", None)),
        {1, 2},
        pytest.param(frozenset({"b", "a"}), id="frozenset"),
        {"a": 1},
        {"$": 1, "$id": 2},
        {1: "a", ("b", 0): [b"c"]},
        {b"key": (1,)},
        Counter({"range": 2}),
        ErrorCode.NONE,
        TimerKind.JOIN,
        ClassicGroupState.EMPTY,
        MemberName("a-1", None, "a", "/127.0.0.1"),
        Context(7, 9, "a", "/127.0.0.1", connection_id=3),
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=1,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00")],
        ),
    ],
    ids=repr,
)
def test_a_value_comes_back(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_members_of_enumerations_are_themselves() -> None:
    assert there_and_back([ClassicGroupState.STABLE])[0] is ClassicGroupState.STABLE


def test_an_object_that_is_named_twice_is_one() -> None:
    member = Member("a-1", None, "a", "/127.0.0.1", 10_000, 60_000, (("range", b""),))
    member.session_deadline_ms = 12
    first, second = there_and_back([member, {"last": member}])
    assert first is second["last"]
    assert {name: getattr(first, name) for name in Member.__slots__} == {
        name: getattr(member, name) for name in Member.__slots__
    }


def test_topics_come_back_by_name_and_by_id() -> None:
    image = TopicsImage([TopicImage("orders", bytes(16), 3), TopicImage("a", b"x" * 16, 1)], version=9)
    back = there_and_back(image)
    assert (dict(back.by_name), dict(back.by_id), back.version) == (dict(image.by_name), dict(image.by_id), 9)


def test_a_set_has_one_form_whatever_its_order() -> None:
    one, other = set([0, 8]), set([8, 0])  # noqa: C405 - which came first is what matters
    assert list(one) != list(other)
    assert Writer().form(one) == Writer().form(other)
    assert Writer().form(one) != Writer().form(frozenset(one))


def test_what_is_no_value_of_the_core_has_no_form() -> None:
    with pytest.raises(TypeError):
        Writer().form(object())


@pytest.mark.parametrize(
    "form",
    [
        {"$": "os.system"},
        {"$": ["member.Member"]},
        {"$": "member.Member", "$id": 0, "no_field": 1},
        {"$": "member.Member", "$id": 0},
        {"$": "join_group.JoinGroupRequest"},
        {"$": "join_group.JoinGroupRequest", "more": 1},
        {"$ref": 4},
        {"$t": 4},
        {"$d": [[1]]},
        {"$s": [[1]]},
        {"$x": 1},
        {"$t": [], "$s": []},
        "$b:!",
        "$e:errors.ErrorCode.NO_SUCH",
        "$e:nothing",
    ],
    ids=str,
)
def test_what_is_no_form_is_told(form: Any) -> None:
    with pytest.raises(BadForm):
        Forms().value(form)


def test_every_class_has_a_name_of_its_own() -> None:
    found = classes()
    assert len(found) > 100
    assert all(tag_of(kind) == tag for tag, kind in found.items())
