"""Values of the core come back as they were."""

from collections import Counter
from typing import Any

import pytest
from msgspec import json

from coordinator.control.recording.json_codec import UndecodableValue, ValueDecoder, ValueEncoder
from coordinator.core.outcome import Context
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.consumer.consumer_group import MemberSession
from coordinator.group.event_details import MemberName
from coordinator.group.group_requests import CommandResult, GroupTimerKind
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def there_and_back(value: Any) -> Any:
    return ValueDecoder().decode(json.decode(json.encode(ValueEncoder().encode(value))))


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
        GroupTimerKind.JOIN,
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
def test_a_value_survives_a_round_trip(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_members_of_enumerations_are_themselves() -> None:
    assert there_and_back([ClassicGroupState.STABLE])[0] is ClassicGroupState.STABLE


def test_an_object_that_is_named_twice_is_one() -> None:
    member = ClassicMember(MemberName("a-1", None, "a", "/127.0.0.1"), 10_000, 60_000, (("range", b""),))
    member.session_deadline_ms = 12
    first, second = there_and_back([member, {"last": member}])
    assert first is second["last"]
    assert {name: getattr(first, name) for name in ClassicMember.__slots__} == {
        name: getattr(member, name) for name in ClassicMember.__slots__
    }


def test_answers_and_sessions_are_written_whole_as_earlier_versions_did() -> None:
    assert ValueEncoder().encode(CommandResult()) == {
        "$": "requests.Acted",
        "error": "$e:errors.ErrorCode.NONE",
    }
    assert ValueEncoder().encode(MemberSession(1, 2)).keys() == {"$", *MemberSession.__struct_fields__}


def test_topics_survive_a_round_trip_by_name_and_id() -> None:
    image = TopicsImage([TopicImage("orders", bytes(16), 3), TopicImage("a", b"x" * 16, 1)], version=9)
    back = there_and_back(image)
    assert (dict(back.by_name), dict(back.by_id), back.version) == (dict(image.by_name), dict(image.by_id), 9)


def test_a_set_has_one_form_whatever_its_order() -> None:
    one, other = set([0, 8]), set([8, 0])  # noqa: C405 - which came first is what matters
    assert list(one) != list(other)
    assert ValueEncoder().encode(one) == ValueEncoder().encode(other)
    assert ValueEncoder().encode(one) != ValueEncoder().encode(frozenset(one))


def test_foreign_values_are_refused() -> None:
    with pytest.raises(TypeError):
        ValueEncoder().encode(object())


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
def test_invalid_forms_are_refused(form: Any) -> None:
    with pytest.raises(UndecodableValue):
        ValueDecoder().decode(form)
