"""Regular expressions over topic names: RE2's, as RE2/J 1.8 reads them, which is what Kafka asks.

RE2 takes time that grows with the lengths of expression and name, whatever the expression is. What it may take of
memory is bounded here, and by that the time for one name; RE2/J has no bounds.

Source: Kafka's `TopicRegexResolver`, `GroupMetadataManager.maybeUpdateRegularExpressions`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from coordinator.group.modern.re2j_syntax import for_re2

if TYPE_CHECKING:
    import re2

MOST_CHARACTERS: Final = 16 * 1024
"""Of an expression."""
MOST_COSTS: Final = 2000
"""Repetitions and classes of an expression."""
MOST_UNICODE_CLASSES: Final = 100
EXPRESSION_MEMORY_BYTES: Final = 1024 * 1024
"""Of one compiled expression: ten thousand instructions."""
TOO_LARGE: Final = "expression is too large"
"""Our own word for what has no bound in Kafka."""
MISSING_BRACKET: Final = "missing closing ]"
MISSING_PARENTHESIS: Final = "missing closing )"
SET_MEMORY_BYTES: Final = 16 * 1024 * 1024
EXPRESSIONS_IN_A_SET: Final = 100
"""Together they take hardly longer for a name than one."""
_EVERY_NAME: Final = b"(?s).*"

_WORDS: Final = {
    "missing ]": MISSING_BRACKET,
    "missing )": MISSING_PARENTHESIS,
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid escape sequence",  # of \\x{ at the end
    "pattern too large - compile failed": TOO_LARGE,
}
"""RE2/J's words for RE2's, where they differ."""


def why_invalid(pattern: str) -> str | None:
    """What is wrong with an expression, in the words of RE2/J; None when it is one.

    What is refused here alone: what is too large, and repetitions within each other that come to more than a
    thousand, which RE2/J takes until there is no memory left.
    """
    if len(pattern) > MOST_CHARACTERS:
        return TOO_LARGE
    asked = for_re2(pattern)
    if asked.costs > MOST_COSTS or asked.unicode_classes > MOST_UNICODE_CLASSES:
        return TOO_LARGE
    error = _error(asked.text)
    if asked.refused is not None and error in (None, MISSING_BRACKET, MISSING_PARENTHESIS):
        return asked.refused
    return error


def matches(patterns: Collection[str], names: Collection[str]) -> dict[str, list[str]]:
    """The names that each expression matches from their begin to their end, sorted. What is no expression matches
    nothing. It may take long, on any thread, and keeps nothing when it is done."""
    found: dict[str, list[str]] = {}
    for _ in match_in_steps(patterns, names, found):
        pass
    return found


def match_in_steps(
    patterns: Collection[str], names: Collection[str], found: dict[str, list[str]]
) -> Iterator[int]:
    """The same, into `found`, in steps: each takes microseconds for expressions as they usually are, and at most a
    second. Yields how many characters the names have so far that it found, those of each expression."""
    import re2

    found.update((pattern, []) for pattern in patterns)
    ordered = sorted(names)
    encoded = [name.encode(errors="surrogatepass") for name in ordered]
    characters = 0
    valid = []
    for pattern in found:
        if why_invalid(pattern) is None:
            valid.append(pattern)
        yield characters
    for begin in range(0, len(valid), EXPRESSIONS_IN_A_SET):
        some = valid[begin : begin + EXPRESSIONS_IN_A_SET]
        texts = [for_re2(pattern).text.encode() for pattern in some]
        together = _together(texts)
        for name, text in zip(ordered, encoded, strict=True):
            which = [] if together is None else together.Match(text)
            if not which:  # not even what matches every name: there is too little memory for so many
                which = _one_by_one(texts, text)
            for index in which:
                if index < len(some):
                    found[some[index]].append(name)
                    characters += len(name)
            yield characters
        re2.purge()


def _together(expressions: Sequence[bytes]) -> "re2.Set | None":
    """These, and after them one that matches every name; None where they are too large together."""
    import re2

    together = re2.Set.FullMatchSet(_options(SET_MEMORY_BYTES))
    try:
        for expression in (*expressions, _EVERY_NAME):
            together.Add(expression)
        together.Compile()
    except re2.error:
        return None
    return together


def _one_by_one(expressions: Sequence[bytes], name: bytes) -> list[int]:
    import re2

    options = _options(EXPRESSION_MEMORY_BYTES)
    return [
        index
        for index, expression in enumerate(expressions)
        if re2.fullmatch(expression, name, options) is not None
    ]


def _error(pattern: str) -> str | None:
    import re2

    try:
        re2.compile(pattern.encode(errors="surrogatepass"), _options(EXPRESSION_MEMORY_BYTES))
    except re2.error as error:
        text = error.args[0]
        words = (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).partition(": ")[0]
        return _WORDS.get(words, words)
    finally:
        re2.purge()  # the binding would keep a hundred of them
    return None


def _options(memory_bytes: int) -> "re2.Options":
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory_bytes
    return options
