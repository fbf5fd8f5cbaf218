"""Which name of a principal the subject of a client's certificate stands for: `ssl.principal.mapping.rules`.

    DEFAULT                                the subject itself
    RULE:PATTERN/REPLACEMENT/[L|U]         where the pattern matches all of the subject: each match of it replaced,
                                           and the whole in lower or upper case

Rules have commas between them; the first that matches wins. `$n` is a group of the pattern, `${name}` one with a
name, and `\\` takes the meaning from what follows it.

Patterns are Python's, which reads what people write for Java alike; one that it reads otherwise, or not at all, is
refused. So is a replacement that Java would fail on when it is used.

Source: Kafka's `SslPrincipalMapper`, KIP-371; Java's `Matcher.appendReplacement`.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Final

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|.*?"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_NAMED_GROUP: Final = re.compile(r"(\\.)|\(\?<(?=[A-Za-z])", re.DOTALL)
_NAME: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS: Final = frozenset("0123456789")
_MOST_DIGITS: Final = 9
_BLANKS: Final = "".join(map(chr, range(33)))


class MappingError(ValueError):
    """Rules that cannot be followed. The text says which and why, in one line."""


class NoMatchingRule(Exception):
    """No rule says what a subject stands for."""


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, text: str) -> None:
        """In: the value of the property. Raises MappingError."""
        self._rules = [_parse(rule) for rule in _split(text) if rule]

    def name_of(self, subject: str) -> str:
        """The name of the principal, never "". In: a subject in the form of RFC 2253. Raises NoMatchingRule."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                if not name:
                    break
                return name
        raise NoMatchingRule("no rule of ssl.principal.mapping.rules makes a name")


class _Rule:
    """One that is not DEFAULT."""

    __slots__ = ("_case", "_parts", "_pattern")

    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        """In: L, U or "". Raises MappingError."""
        self._pattern = _compile(pattern)
        try:
            self._parts = list(_parts(_escaped(replacement, self._pattern.groups), self._pattern))
        except MappingError as error:
            raise MappingError(f"the replacement {replacement} for {pattern} {error}") from None
        self._case = case

    def apply(self, subject: str) -> str | None:
        """The name; None where the pattern does not match."""
        if self._pattern.fullmatch(subject) is None:
            return None
        name = self._pattern.sub(self._expand, subject)
        if self._case:
            name = name.lower() if self._case == "L" else name.upper()
        return name

    def _expand(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self._parts)


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text.strip(_BLANKS))]


def _parse(rule: str) -> _Rule | None:
    """A rule; None for DEFAULT."""
    match = _PARSER.match(rule)
    if match is None or match.end() != len(rule):
        raise MappingError(
            f"{rule} is no rule: DEFAULT, or RULE:PATTERN/REPLACEMENT/ and then L, U or nothing"
        )
    is_default, pattern, replacement, case = match.groups()
    return None if is_default else _Rule(pattern, replacement, case)


def _compile(pattern: str) -> re.Pattern[str]:
    translated = _NAMED_GROUP.sub(lambda match: match[1] or "(?P<", pattern)
    with warnings.catch_warnings():
        # Of what it reads otherwise than Java (sets in sets) Python warns.
        warnings.simplefilter("error")
        try:
            return re.compile(translated, re.ASCII)
        except (re.error, Warning, OverflowError, RecursionError) as error:
            raise MappingError(f"the pattern {pattern} cannot be read: {error}") from None


def _escaped(replacement: str, groups: int) -> str:
    """With a backslash before references to groups that are not there. As in Kafka, references keep their places
    while backslashes are put in, and where there is no group at all nothing is done."""
    if not groups:
        return replacement
    escaped = replacement
    for match in _REFERENCE.finditer(replacement):
        digits = match[1]
        if digits.startswith("0"):
            continue
        if len(digits) > _MOST_DIGITS:
            raise MappingError("refers to a group that cannot be")
        number = int(digits)
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = escaped[: match.start()] + "\\" + escaped[match.start() :]
    return escaped


def _parts(replacement: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    """Text, and the numbers of groups, as Java reads a replacement. Raises MappingError with what it does."""
    at = 0
    while at < len(replacement):
        sign = replacement[at]
        at += 1
        if sign == "\\":
            if at == len(replacement):
                raise MappingError("ends with a backslash")
            yield replacement[at]
            at += 1
        elif sign != "$":
            yield sign
        elif (name := _NAME.match(replacement, at)) is not None:
            if name[1] not in pattern.groupindex:
                raise MappingError(f"names a group that is not there, {name[1]}")
            yield pattern.groupindex[name[1]]
            at = name.end()
        elif at == len(replacement) or replacement[at] not in _DIGITS:
            raise MappingError("has a $ without a group; a literal one is \\$")
        else:
            number = int(replacement[at])
            at += 1
            if number > pattern.groups:
                raise MappingError(f"refers to a group that is not there, {number}")
            while at < len(replacement) and replacement[at] in _DIGITS:
                longer = number * 10 + int(replacement[at])
                if longer > pattern.groups:
                    break
                number = longer
                at += 1
            yield number
