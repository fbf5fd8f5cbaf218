import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config.properties_file import parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# comment\n! another\n\n  \n", {}),
        ("a=1\nb:2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  ", {"a": "1  "}),
        ("a = b = c", {"a": "b = c"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=back\\\\\nb=1", {"a": "back\\", "b": "1"}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\u00e9\\t\\q", {"a": "é\tq"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_files_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz"])
def test_a_bad_escape_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"u12|zzzz"):
        parse_properties(text)


@given(st.text())
def test_any_text_gives_values_or_a_value_error(text: str) -> None:
    try:
        parse_properties(text)
    except ValueError:
        return
