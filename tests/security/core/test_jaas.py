"""JAAS configurations are parsed as by Kafka and Java, and errors do not reveal their content."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.core.jaas import JaasError, LoginModule, parse_jaas_file, parse_jaas_property
from tests.security.core.jaas_cases import questions, recorded

STRICTER = ('Plain required a="1\n;',)
"""Lines of modules that Java takes and groupd does not: a quote that is not closed ends with its line there."""


def modules(form: str, text: str) -> list[LoginModule] | None:
    """What is found of Kafka's server; None where the text is refused."""
    try:
        if form == "file":
            return parse_jaas_file(text).get("KafkaServer", [])
        found = parse_jaas_property(text)
    except JaasError:
        return None
    return found if len(found) == 1 else None


def plain(found: list[LoginModule] | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    return [{"name": each.name, "flag": each.flag, "options": dict(each.options)} for each in found]


def test_kafka_was_asked_everything() -> None:
    asked = [{name: answer[name] for name in ("form", "text")} for answer in recorded()]
    assert asked == questions(), "record again: python -m tests.security.core.jaas_cases"
    assert sum(answer["modules"] is None for answer in recorded()) > 30


@pytest.mark.parametrize("answer", recorded(), ids=lambda answer: f"{answer['form']} {answer['text']!a}"[:80])
def test_what_kafka_finds_is_found(answer: dict[str, Any]) -> None:
    found = plain(modules(answer["form"], answer["text"]))
    if any(text in answer["text"] for text in STRICTER):
        assert found is None
        assert answer["modules"] is not None
    else:
        assert found == answer["modules"]


# Written and read

NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_.$-]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def quoted(value: str, quote: str) -> str:
    """Quote a value and escape quotes and line ends."""
    escapes = {"\\": "\\\\", quote: f"\\{quote}", "\n": "\\n", "\r": "\\r"}
    return quote + "".join(escapes.get(character, character) for character in value) + quote


@given(st.data(), st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from(["required", "OPTIONAL"]))
def test_what_is_written_is_read(data: st.DataObject, options: dict[str, str], flag: str) -> None:
    blank = st.sampled_from([" ", "\n", "\t /* a comment; */ ", " // another = one\n"])
    text = f"a.b.Module{data.draw(blank)}{flag}"
    for name, value in options.items():
        quote = data.draw(st.sampled_from("\"'"))
        text += f"{data.draw(blank)}{name}{data.draw(blank)}={data.draw(blank)}{quoted(value, quote)}"
    text += f"{data.draw(blank)};"
    assert parse_jaas_property(text) == [LoginModule("a.b.Module", flag.upper(), options)]


@given(
    st.text(st.sampled_from("ab \"'\\/*=;{}\n5-.$"), max_size=30),
    st.sampled_from([parse_jaas_property, parse_jaas_file]),
)
def test_any_text_is_read_or_refused(text: str, parse: Any) -> None:
    with contextlib.suppress(JaasError):
        parse(text)


# What errors say


@pytest.mark.parametrize(
    ("text", "place", "missing"),
    [
        ("", "line 1, column 1", "login module"),
        ("Plain", "line 1, column 6", "flag"),
        ("Plain secret;", "line 1, column 7", "required, requisite"),
        ('Plain required\n  user_a="secret" user_b="secret2"', "line 2, column 35", "semicolon"),
        ('Plain required user_a "secret";', "line 1, column 23", "="),
        ("Plain required user_a=5secret;", "line 1, column 23", "quotes"),
        ('Plain required user_a="se"cret"\n;', "line 1, column 31", "quote"),
        ('Plain required user_a="se" cret;', "line 1, column 32", "="),
        ('Plain required user_a="secret\n";', "line 1, column 23", "not closed"),
    ],
)
def test_an_error_says_where_and_what_is_missing_and_no_secret(text: str, place: str, missing: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas_property(text)
    message = str(refused.value)
    assert message.startswith(f"{place}: ")
    assert missing in message
    assert "cret" not in message


def test_a_file_says_where_as_well() -> None:
    with pytest.raises(JaasError, match=r"line 2, column 1: "):
        parse_jaas_file("A { };\nA { };")
    with pytest.raises(JaasError, match=r"line 1, column 24.*\$\{…\}"):
        parse_jaas_file('A { Plain required a = "${secret}"; };')


def test_a_login_module_shows_no_option() -> None:
    (module,) = parse_jaas_property('Plain required user_alice="secret";')
    assert "secret" not in repr(module)
    assert module.options == {"user_alice": "secret"}
