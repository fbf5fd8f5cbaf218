"""Where RE2/J, whose syntax Kafka's topic expressions have, reads an expression otherwise than RE2.

`for_re2` walks the tokens of an expression and gives what RE2 is to be asked instead. RE2/J and RE2 agree on all
else, error by error: both read from the left and stop at the first thing that is wrong. Source: RE2/J 1.8
(`Parser`).
"""

import re
from dataclasses import dataclass, field
from typing import Final

INVALID_ESCAPE: Final = "invalid escape sequence"
INVALID_RANGE: Final = "invalid character class range"
INVALID_NAME: Final = "invalid named capture"
DUPLICATE_NAME: Final = "duplicate capture group name"
INVALID_COUNT: Final = "invalid repeat count"
NESTED_REPETITION: Final = "invalid nested repetition operator"

_MOST_REPEATED: Final = 1000
_REPEAT: Final = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_SEVERAL: Final = ("\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\p", "\\P")
_NAMED: Final = re.compile(r"\(\?P?<")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_UNICODE_CLASSES: Final = frozenset(
    """
    Any Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid C
    Canadian_Aboriginal Carian Cc Cf Cham Cherokee Co Common Coptic Cs Cuneiform Cypriot Cyrillic Deseret
    Devanagari   Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han
    Hangul Hanunoo Hebrew   Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana   Kayah_Li Kharoshthi Khmer L Lao Latin Lepcha
    Limbu Linear_B Lisu Ll Lm Lo Lt Lu Lycian Lydian M Malayalam Mandaic   Mc Me Meetei_Mayek Mn Mongolian
    Myanmar N Nd New_Tai_Lue Nko Nl No Ogham Ol_Chiki Old_Italic Old_Persian   Old_South_Arabian
    Old_Turkic Oriya Osmanya P Pc Pd Pe Pf Phags_Pa Phoenician Pi Po Ps Rejang Runic S Samaritan
    Saurashtra Sc Shavian Sinhala Sk Sm So Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham
    Tai_Viet   Tamil Telugu Thaana Thai Tibetan Tifinagh Ugaritic Vai Yi Z Zl Zp Zs
    """.split()  # noqa: SIM905 - a list of names reads better so
)
"""Categories and scripts that RE2/J knows; RE2 knows younger scripts, too."""


@dataclass(slots=True)
class ForRe2:
    """What RE2 is asked: the whole expression; or, where `refused` says what RE2/J finds wrong, what is before
    that. `costs` counts repetitions and classes, `unicode_classes` those classes that have hundreds of ranges."""

    text: str
    refused: str | None = None
    costs: int = 0
    unicode_classes: int = 0


def for_re2(pattern: str) -> ForRe2:
    """What to ask RE2 about an expression."""
    return _Walk(pattern).whole()


class _RefusedError(Exception):
    """RE2/J goes no further."""


def _check_counts(counts: re.Match[str]) -> None:
    """RE2/J looks at the counts of a repetition before it looks at what is repeated."""
    least, most = counts[1], counts[3] or counts[1]
    if max(len(least), len(most)) > len(str(_MOST_REPEATED)) or not int(least) <= int(most) <= _MOST_REPEATED:
        raise _RefusedError(INVALID_COUNT)


@dataclass(slots=True)
class _Walk:
    """A walk over the tokens of `pattern`, which is at `at`; `kept` has what RE2 is to see of those before."""

    pattern: str
    at: int = 0
    kept: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    costs: int = 0
    unicode_classes: int = 0

    def whole(self) -> ForRe2:
        refused = None
        try:
            is_brace = False
            while self.at < len(self.pattern):
                is_brace = self._token(is_brace)
        except _RefusedError as error:
            refused = str(error)
        return ForRe2("".join(self.kept), refused, self.costs, self.unicode_classes)

    def _token(self, is_after_brace: bool) -> bool:
        """Take the next token. In: whether a brace that stands for itself is before it. Whether this is one."""
        match self.pattern[self.at]:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._parenthesis()
            case "*" | "+" | "?":
                self._repeat(self.at + 1, is_after_brace)
            case "{":
                counts = _REPEAT.match(self.pattern, self.at)
                if counts is None:
                    self._keep(self.at + 1)
                    return True
                _check_counts(counts)
                self._repeat(counts.end(), is_after_brace)
            case _:
                self._keep(self.at + 1)
        return False

    def _keep(self, end: int) -> None:
        self.kept.append(self.pattern[self.at : end])
        self.at = min(end, len(self.pattern))

    def _repeat(self, end: int, is_after_brace: bool) -> None:
        self.costs += 1
        self._keep(end)
        if is_after_brace:  # a brace is taken for a repetition even where it stands for itself
            raise _RefusedError(NESTED_REPETITION)

    def _parenthesis(self) -> None:
        named = _NAMED.match(self.pattern, self.at)
        if named is None:
            self._keep(self.at + 1)
            return
        end = self.pattern.find(">", named.end())
        name = self.pattern[named.end() : end]
        if end < 0 or not _NAME.fullmatch(name):
            raise _RefusedError(INVALID_NAME)
        if name in self.names:
            raise _RefusedError(DUPLICATE_NAME)
        self.names.add(name)
        self._keep(end + 1)

    def _escape(self) -> None:
        match self.pattern[self.at + 1 : self.at + 2]:
            case "C":  # any byte: there are no bytes in Java's strings
                raise _RefusedError(INVALID_ESCAPE)
            case "Q":
                end = self.pattern.find("\\E", self.at + 2)
                self._keep(len(self.pattern) if end < 0 else end + 2)
            case _:
                self._escaped()

    def _escaped(self) -> None:
        """An escape that may also be in a class."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        is_braced = self.pattern[self.at + 2 : self.at + 3] == "{"
        end = self.at + 2
        if letter in ("p", "P", "x") and is_braced:
            closing = self.pattern.find("}", end)
            end = len(self.pattern) if closing < 0 else closing + 1
        elif letter in ("p", "P"):
            end += 1
        if letter in ("p", "P"):
            self.unicode_classes += 1
            name = self.pattern[self.at + 2 : end].strip("{}").removeprefix("^")
            if name not in _UNICODE_CLASSES:
                raise _RefusedError(INVALID_RANGE)
        if (
            letter and not letter.isascii()
        ):  # such a character means itself, which RE2 takes without the backslash
            self.at += 1
        self._keep(end)

    def _class(self) -> None:
        """A class, up to its end."""
        self.costs += 1
        self._keep(self.at + (2 if self.pattern.startswith("^", self.at + 1) else 1))
        is_first = True
        while self.at < len(self.pattern) and (is_first or self.pattern[self.at] != "]"):
            is_first = False
            if self.pattern.startswith("[:]", self.at):  # looked up as the name of a class
                raise _RefusedError(INVALID_RANGE)
            end = self.pattern.find(":]", self.at + 2) if self.pattern.startswith("[:", self.at) else -1
            if end >= 0:
                self._keep(end + 2)
                continue
            is_several = self.pattern[self.at : self.at + 2] in _SEVERAL
            self._class_item()
            is_range = self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at)
            if is_range and not is_several:
                self._keep(self.at + 1)
                if self.at < len(self.pattern):
                    self._class_item()
        self._keep(self.at + 1)

    def _class_item(self) -> None:
        if self.pattern[self.at] == "\\":
            self._escaped()
        else:
            self._keep(self.at + 1)
