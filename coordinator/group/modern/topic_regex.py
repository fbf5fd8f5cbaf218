"""Regular expressions over topic names, by RE2 with the syntax of RE2/J 1.8, which Kafka uses.

Import this module only to use an expression: RE2 is large, and few groups have expressions.

`translate_pattern` walks the tokens of an expression and replaces the few that RE2/J interprets differently.
Otherwise both engines agree, error by error: both parse from the left and stop at the first mistake. The time of
RE2 grows only with the lengths of expression and name. This module limits its memory, and the time for one name;
RE2/J has no limits.

Source: RE2/J 1.8 (`Parser`), Kafka's `TopicRegexResolver`, `GroupMetadataManager.maybeUpdateRegularExpressions`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import re2
from msgspec import Struct, field

INVALID_ESCAPE: Final = "invalid escape sequence"
INVALID_RANGE: Final = "invalid character class range"
INVALID_NAME: Final = "invalid named capture"
DUPLICATE_NAME: Final = "duplicate capture group name"
INVALID_COUNT: Final = "invalid repeat count"
NESTED_REPETITION: Final = "invalid nested repetition operator"

_MAX_REPETITIONS: Final = 1000
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
"""Categories and scripts of RE2/J. RE2 also knows newer scripts."""

MAX_CHARACTERS: Final = 16 * 1024
"""Limit for one expression."""
MAX_COSTS: Final = 2000
"""Limit of repetitions and classes in one expression."""
MAX_UNICODE_CLASSES: Final = 100
EXPRESSION_MEMORY_BYTES: Final = 1024 * 1024
"""Limit for one compiled expression: ten thousand instructions."""
TOO_LARGE: Final = "expression is too large"
"""Our own message: Kafka has no limit."""
MISSING_BRACKET: Final = "missing closing ]"
MISSING_PARENTHESIS: Final = "missing closing )"
SET_MEMORY_BYTES: Final = 16 * 1024 * 1024
EXPRESSIONS_PER_SET: Final = 100
"""Expressions that RE2 matches together, as a set. A name takes hardly longer than with a single expression."""
_EVERY_NAME: Final = b"(?s).*"

_RE2J_MESSAGES: Final = {
    "missing ]": MISSING_BRACKET,
    "missing )": MISSING_PARENTHESIS,
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid escape sequence",  # from \\x{ at the end
    "pattern too large - compile failed": TOO_LARGE,
}
"""RE2/J's messages for RE2's, where they differ."""


def find_pattern_error(pattern: str) -> str | None:
    """Return the error of an expression in RE2/J's words, None if the expression is valid.

    Two errors are ours: an expression over the limits, and nested repetitions with a product over a thousand, which
    RE2/J accepts until it runs out of memory.
    """
    if len(pattern) > MAX_CHARACTERS:
        return TOO_LARGE
    translated = translate_pattern(pattern)
    if translated.costs > MAX_COSTS or translated.unicode_classes > MAX_UNICODE_CLASSES:
        return TOO_LARGE
    error = _find_re2_error(translated.text)
    if translated.error is not None and error in (None, MISSING_BRACKET, MISSING_PARENTHESIS):
        return translated.error
    return error


def match_names(patterns: Collection[str], names: Collection[str]) -> dict[str, list[str]]:
    """Return the names that each expression matches completely, sorted.

    An invalid expression matches nothing. The call may take long, on any thread, and keeps no memory afterwards.
    """
    found: dict[str, list[str]] = {}
    for _ in match_in_steps(patterns, names, found):
        pass
    return found


def match_in_steps(
    patterns: Collection[str], names: Collection[str], found: dict[str, list[str]]
) -> Iterator[int]:
    """Match in steps, and put the names of each expression into `found`.

    A step usually takes microseconds, at most a second. Yields the number of characters in the names found so
    far, summed over the expressions.
    """
    found.update((pattern, []) for pattern in patterns)
    ordered = sorted(names)
    encoded = [name.encode(errors="surrogatepass") for name in ordered]
    characters = 0
    valid = []
    for pattern in found:
        if find_pattern_error(pattern) is None:
            valid.append(pattern)
        yield characters
    for begin in range(0, len(valid), EXPRESSIONS_PER_SET):
        batch = valid[begin : begin + EXPRESSIONS_PER_SET]
        texts = [translate_pattern(pattern).text.encode() for pattern in batch]
        pattern_set = _compile_set(texts)
        for name, text in zip(ordered, encoded, strict=True):
            matched = [] if pattern_set is None else pattern_set.Match(text)
            if not matched:  # not even the match-all expression matched: out of memory
                matched = _match_one_by_one(texts, text)
            for index in matched:
                if index < len(batch):
                    found[batch[index]].append(name)
                    characters += len(name)
            yield characters
        re2.purge()


def _compile_set(expressions: Sequence[bytes]) -> re2.Set | None:
    """Compile the expressions and a final match-all expression; return None if they are too large together."""
    pattern_set = re2.Set.FullMatchSet(_build_options(SET_MEMORY_BYTES))
    try:
        for expression in (*expressions, _EVERY_NAME):
            pattern_set.Add(expression)
        pattern_set.Compile()
    except re2.error:
        return None
    return pattern_set


def _match_one_by_one(expressions: Sequence[bytes], name: bytes) -> list[int]:
    options = _build_options(EXPRESSION_MEMORY_BYTES)
    return [
        index
        for index, expression in enumerate(expressions)
        if re2.fullmatch(expression, name, options) is not None
    ]


def _find_re2_error(pattern: str) -> str | None:
    try:
        re2.compile(pattern.encode(errors="surrogatepass"), _build_options(EXPRESSION_MEMORY_BYTES))
    except re2.error as error:
        text = error.args[0]
        message = (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).partition(": ")[0]
        return _RE2J_MESSAGES.get(message, message)
    finally:
        re2.purge()  # the binding would cache a hundred of them
    return None


def _build_options(memory_bytes: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory_bytes
    return options


class Re2Pattern(Struct):
    """An expression translated for RE2, up to the place of `error`, the error that RE2/J would report. `costs`
    counts repetitions and classes; `unicode_classes` counts the classes with hundreds of ranges.
    """

    text: str
    error: str | None = None
    costs: int = 0
    unicode_classes: int = 0


def translate_pattern(pattern: str) -> Re2Pattern:
    """Translate an expression from RE2/J to RE2."""
    return _PatternTranslator(pattern).translate()


class _InvalidPatternError(Exception):
    """Raised at the place where RE2/J rejects the expression."""


def _check_counts(counts: re.Match[str]) -> None:
    """Check the counts of a repetition, as RE2/J does before it checks the repeated expression."""
    least, most = counts[1], counts[3] or counts[1]
    if (
        max(len(least), len(most)) > len(str(_MAX_REPETITIONS))
        or not int(least) <= int(most) <= _MAX_REPETITIONS
    ):
        raise _InvalidPatternError(INVALID_COUNT)


class _PatternTranslator(Struct):
    """A walk over the tokens of `pattern`, now at `position`. `pieces` has the translation of the tokens before
    it.
    """

    pattern: str
    position: int = 0
    pieces: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    costs: int = 0
    unicode_classes: int = 0

    def translate(self) -> Re2Pattern:
        refused = None
        try:
            is_brace = False
            while self.position < len(self.pattern):
                is_brace = self._translate_token(is_brace)
        except _InvalidPatternError as error:
            refused = str(error)
        return Re2Pattern("".join(self.pieces), refused, self.costs, self.unicode_classes)

    def _translate_token(self, is_after_brace: bool) -> bool:
        """Translate the next token.

        Args:
            is_after_brace: the previous token is a literal brace.

        Returns:
            Whether this token is a literal brace.
        """
        match self.pattern[self.position]:
            case "\\":
                self._translate_escape()
            case "[":
                self._translate_class()
            case "(":
                self._translate_parenthesis()
            case "*" | "+" | "?":
                self._translate_repetition(self.position + 1, is_after_brace)
            case "{":
                counts = _REPEAT.match(self.pattern, self.position)
                if counts is None:
                    self._copy_until(self.position + 1)
                    return True
                _check_counts(counts)
                self._translate_repetition(counts.end(), is_after_brace)
            case _:
                self._copy_until(self.position + 1)
        return False

    def _copy_until(self, end: int) -> None:
        self.pieces.append(self.pattern[self.position : end])
        self.position = min(end, len(self.pattern))

    def _translate_repetition(self, end: int, is_after_brace: bool) -> None:
        self.costs += 1
        self._copy_until(end)
        if is_after_brace:  # a brace counts as a repetition even where it is a literal
            raise _InvalidPatternError(NESTED_REPETITION)

    def _translate_parenthesis(self) -> None:
        named = _NAMED.match(self.pattern, self.position)
        if named is None:
            self._copy_until(self.position + 1)
            return
        end = self.pattern.find(">", named.end())
        name = self.pattern[named.end() : end]
        if end < 0 or not _NAME.fullmatch(name):
            raise _InvalidPatternError(INVALID_NAME)
        if name in self.names:
            raise _InvalidPatternError(DUPLICATE_NAME)
        self.names.add(name)
        self._copy_until(end + 1)

    def _translate_escape(self) -> None:
        match self.pattern[self.position + 1 : self.position + 2]:
            case "C":  # any byte: Java's strings have no bytes
                raise _InvalidPatternError(INVALID_ESCAPE)
            case "Q":
                end = self.pattern.find("\\E", self.position + 2)
                self._copy_until(len(self.pattern) if end < 0 else end + 2)
            case _:
                self._translate_class_escape()

    def _translate_class_escape(self) -> None:
        """Translate an escape that is also legal in a class."""
        letter = self.pattern[self.position + 1 : self.position + 2]
        is_braced = self.pattern[self.position + 2 : self.position + 3] == "{"
        end = self.position + 2
        if letter in ("p", "P", "x") and is_braced:
            closing = self.pattern.find("}", end)
            end = len(self.pattern) if closing < 0 else closing + 1
        elif letter in ("p", "P"):
            end += 1
        if letter in ("p", "P"):
            self.unicode_classes += 1
            name = self.pattern[self.position + 2 : end].strip("{}").removeprefix("^")
            if name not in _UNICODE_CLASSES:
                raise _InvalidPatternError(INVALID_RANGE)
        if letter and not letter.isascii():  # an escaped literal, which RE2 takes without the backslash
            self.position += 1
        self._copy_until(end)

    def _translate_class(self) -> None:
        """Translate a class up to its end."""
        self.costs += 1
        self._copy_until(self.position + (2 if self.pattern.startswith("^", self.position + 1) else 1))
        is_first = True
        while self.position < len(self.pattern) and (is_first or self.pattern[self.position] != "]"):
            is_first = False
            if self.pattern.startswith("[:]", self.position):  # looked up as the name of a class
                raise _InvalidPatternError(INVALID_RANGE)
            end = (
                self.pattern.find(":]", self.position + 2)
                if self.pattern.startswith("[:", self.position)
                else -1
            )
            if end >= 0:
                self._copy_until(end + 2)
                continue
            is_several = self.pattern[self.position : self.position + 2] in _SEVERAL
            self._translate_class_item()
            is_range = self.pattern.startswith("-", self.position) and not self.pattern.startswith(
                "-]", self.position
            )
            if is_range and not is_several:
                self._copy_until(self.position + 1)
                if self.position < len(self.pattern):
                    self._translate_class_item()
        self._copy_until(self.position + 1)

    def _translate_class_item(self) -> None:
        if self.pattern[self.position] == "\\":
            self._translate_class_escape()
        else:
            self._copy_until(self.position + 1)
