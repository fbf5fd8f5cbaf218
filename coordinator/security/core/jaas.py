"""Parse JAAS configurations, which hold the users of PLAIN: the value of a property, or a file.

    property:   CLASS FLAG NAME="VALUE" NAME='VALUE' … ;
    file:       SECTION { CLASS FLAG NAME="VALUE" … ; … }; …

Words, quotes, escapes and comments follow Java's tokenizer, with two differences. A quote must be closed on its
line, while Java accepts the text up to the end of the line. In a file, `${NAME}`, which Java replaces, is rejected.

Errors contain no part of the text, because a misplaced word may be part of a password.

Source: Kafka's `JaasConfig`; Java's `StreamTokenizer` and `ConfigFile`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_DIGITS: Final = frozenset("0123456789.")
_OCTAL: Final = frozenset("01234567")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS: Final = "\r\n"
_PROPERTY_LETTERS: Final = "-_$"
_FILE_LETTERS: Final = "-_$*"


class JaasError(ValueError):
    """The JAAS configuration is malformed. The text names position and missing part, and quotes nothing."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class, its flag in capitals, and its options, some of which are secrets."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _TokenKind(Enum):
    WORD = auto()
    QUOTED = auto()
    NUMBER = auto()
    SIGN = auto()
    END = auto()


class _JaasToken(NamedTuple):
    kind: _TokenKind
    text: str
    at: int

    @property
    def is_text(self) -> bool:
        return self.kind in (_TokenKind.WORD, _TokenKind.QUOTED)

    def is_sign(self, sign: str) -> bool:
        return self.kind is _TokenKind.SIGN and self.text == sign


def parse_jaas_property(text: str) -> list[LoginModule]:
    """Parse a property such as `sasl.jaas.config` to its login modules, at least one.

    Raises:
        JaasError: the text is malformed.
    """
    tokens = _JaasTokenizer(text, _PROPERTY_LETTERS)
    modules: list[LoginModule] = []
    while tokens.next.kind is not _TokenKind.END:
        modules.append(_parse_login_module(tokens))
    if not modules:
        raise tokens.create_error("the login module is missing")
    return modules


def parse_jaas_file(text: str) -> dict[str, list[LoginModule]]:
    """Parse a file to the login modules of each section.

    Raises:
        JaasError: the text is malformed.
    """
    tokens = _JaasTokenizer(text, _FILE_LETTERS, is_file=True)
    sections: dict[str, list[LoginModule]] = {}
    while tokens.next.kind is not _TokenKind.END:
        at = tokens.next.at
        name = tokens.take_text("the name of a section")
        if name in sections:
            raise tokens.create_error("the section is given twice", at)
        tokens.take_sign("{")
        modules = sections[name] = []
        while not tokens.next.is_sign("}"):
            modules.append(_parse_login_module(tokens))
        tokens.take_sign("}")
        tokens.take_sign(";")
    return sections


def _parse_login_module(tokens: "_JaasTokenizer") -> LoginModule:
    name = tokens.take_text("the class of a login module")
    at = tokens.next.at
    flag = tokens.take_text("the flag of a login module, such as required").upper()
    if flag not in _FLAGS:
        raise tokens.create_error("the flag must be required, requisite, sufficient or optional", at)
    options: dict[str, str] = {}
    while not tokens.next.is_sign(";"):
        option = tokens.take_text("the name of an option, or a semicolon after the last one")
        tokens.take_sign("=", after="the name of an option")
        options[option] = tokens.take_text("the value of an option, in quotes", is_value=True)
    tokens.take_sign(";")
    return LoginModule(name, flag, options)


class _JaasTokenizer:
    """The tokens of a text; `next` is the first one not consumed."""

    def __init__(self, text: str, letters: str, *, is_file: bool = False) -> None:
        """`letters` are the characters of words besides letters and digits."""
        self._text = text
        self._letters = letters
        self._is_file = is_file
        self._tokens = self._tokenize()
        self.next = next(self._tokens)

    def create_error(self, what: str, at: int | None = None) -> JaasError:
        """Create the error for a position; default: the next token."""
        at = self.next.at if at is None else at
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        return JaasError(f"line {line}, column {column}: {what}")

    def take_text(self, what: str, *, is_value: bool = False) -> str:
        """Consume the next token, which must be a word or quoted."""
        token = self.next
        if not token.is_text:
            raise self.create_error(f"expected {what}")
        if is_value and self._is_file and "${" in token.text:
            raise self.create_error(
                "the value has a ${…}, which groupd does not replace: write the value itself"
            )
        self.next = next(self._tokens)
        return token.text

    def take_sign(self, sign: str, *, after: str = "") -> None:
        """Consume the next token, which must be `sign`."""
        if not self.next.is_sign(sign):
            raise self.create_error(f"expected {sign}" + (f" after {after}" if after else ""))
        self.next = next(self._tokens)

    def _tokenize(self) -> Iterator[_JaasToken]:
        text, at = self._text, 0
        while (at := self._skip_blanks(at)) < len(text):
            character, start = text[at], at
            if character in _DIGITS or character == "-":
                at = self._find_number_end(at)
                yield _JaasToken(
                    _TokenKind.SIGN if text[start:at] == "-" else _TokenKind.NUMBER, text[start:at], start
                )
            elif self._is_letter(character):
                while at < len(text) and (self._is_letter(text[at]) or text[at] in _DIGITS):
                    at += 1
                yield _JaasToken(_TokenKind.WORD, text[start:at], start)
            elif character == '"' or (character == "'" and not self._is_file):
                at, value = self._parse_quoted(at)
                yield _JaasToken(_TokenKind.QUOTED, value, start)
            else:
                at += 1
                yield _JaasToken(_TokenKind.SIGN, character, start)
        while True:
            yield _JaasToken(_TokenKind.END, "", len(text))

    def _is_letter(self, character: str) -> bool:
        return (
            (character.isascii() and character.isalpha()) or character >= "\xa0" or character in self._letters
        )

    def _skip_blanks(self, at: int) -> int:
        """Return the position of the next token after blanks and comments. A single slash starts a comment."""
        text = self._text
        while at < len(text):
            if text[at] <= " ":
                at += 1
            elif text.startswith("/*", at):
                end = text.find("*/", at + 2)
                at = len(text) if end < 0 else end + 2
            elif text[at] == "/":
                while at < len(text) and text[at] not in _LINE_ENDS:
                    at += 1
            else:
                break
        return at

    def _find_number_end(self, at: int) -> int:
        text = self._text
        at += text[at] == "-"
        has_point = False
        while at < len(text) and text[at] in _DIGITS and not (text[at] == "." and has_point):
            has_point = has_point or text[at] == "."
            at += 1
        return at

    def _parse_quoted(self, at: int) -> tuple[int, str]:
        """Parse the quoted text that starts at `at`; return its end and its value."""
        text, start, quote = self._text, at, self._text[at]
        value: list[str] = []
        at += 1
        while at < len(text) and text[at] != quote:
            if text[at] in _LINE_ENDS:
                break
            if text[at] == "\\" and at + 1 < len(text):
                at, character = self._parse_escape(at + 1)
                value.append(character)
            else:
                value.append(text[at])
                at += 1
        if at == len(text) or text[at] != quote:
            raise self.create_error("the quote is not closed on its line", start)
        return at + 1, "".join(value)

    def _parse_escape(self, at: int) -> tuple[int, str]:
        text = self._text
        if text[at] not in _OCTAL:
            return at + 1, _ESCAPES.get(text[at], text[at])
        end = at + 1
        most = at + (3 if text[at] <= "3" else 2)
        while end < min(most, len(text)) and text[end] in _OCTAL:
            end += 1
        return end, chr(int(text[at:end], 8))
