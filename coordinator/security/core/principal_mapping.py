"""Maps the subject of a client certificate to the name of a principal (`ssl.principal.mapping.rules`), and
formats that subject as Java does.

    DEFAULT                                the subject itself
    RULE:PATTERN/REPLACEMENT/[L|U]         where the pattern matches all of the subject: each match of it
                                           replaced, and the whole in lower or upper case
    subject: CN=alice,OU=billing+OU=test,O=Example,1.2.840.113549.1.9.1=#1603614062
Commas separate rules, and the first match wins. `$n` is a group of the pattern, `${name}` a named one, and a
backslash escapes the next character. Patterns are Python's, which agree with Java's for common rules; a
pattern that Python reads differently or rejects is refused, and so is a replacement that fails in Java. In a
subject the last relative name comes first. Nine attribute types have a name; another type appears as its
object identifier with the encoded value, and so does a value that is not text.
Source: Kafka's `SslPrincipalMapper`, KIP-371; Java's `Matcher.appendReplacement`, `X500Principal.getName`,
`AVA.toRFC2253String`; RFC 2253; X.690 for the encoding.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|.*?"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_NAMED_GROUP: Final = re.compile(r"(\\.)|\(\?<(?=[A-Za-z])", re.DOTALL)
_GROUP_NAME: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_GROUP_DIGITS: Final = frozenset("0123456789")
_MAX_DIGITS: Final = 9
_JAVA_WHITESPACE: Final = "".join(map(chr, range(33)))


class MappingError(ValueError):
    """The rules are malformed. The text names the rule and the reason in one line."""


class NoMatchingRule(Exception):
    """No rule matches the subject."""


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, text: str) -> None:
        """Parse the value of the property.

        Raises:
            MappingError: the rules are malformed.
        """
        self._rules = [_parse_rule(rule) for rule in _split_rules(text) if rule]

    def map_subject(self, subject: str) -> str:
        """Return the name of the principal, never "".

        Args:
            subject: the subject in the form of RFC 2253.

        Raises:
            NoMatchingRule: no rule matches.
        """
        for rule in self._rules:
            name = subject if rule is None else rule.map_subject(subject)
            if name is not None:
                if not name:
                    break
                return name
        raise NoMatchingRule("no rule of ssl.principal.mapping.rules returns a name")


class _MappingRule:
    """A rule other than DEFAULT."""

    __slots__ = ("_case", "_parts", "_pattern")

    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        """Compile a rule. `case` is L, U or "".

        Raises:
            MappingError: the rule is malformed.
        """
        self._pattern = _compile_pattern(pattern)
        try:
            self._parts = list(
                _parse_replacement(_escape_missing_groups(replacement, self._pattern.groups), self._pattern)
            )
        except MappingError as error:
            raise MappingError(f"the replacement {replacement} for {pattern} {error}") from None
        self._case = case

    def map_subject(self, subject: str) -> str | None:
        """Return the name; None if the pattern does not match."""
        if self._pattern.fullmatch(subject) is None:
            return None
        name = self._pattern.sub(self._expand_match, subject)
        if self._case:
            name = name.lower() if self._case == "L" else name.upper()
        return name

    def _expand_match(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self._parts)


def _split_rules(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text.strip(_JAVA_WHITESPACE))]


def _parse_rule(rule: str) -> _MappingRule | None:
    """Parse a rule; return None for DEFAULT."""
    match = _PARSER.match(rule)
    if match is None or match.end() != len(rule):
        raise MappingError(
            f"{rule} is not a rule: use DEFAULT, or RULE:PATTERN/REPLACEMENT/ with an optional L or U"
        )
    is_default, pattern, replacement, case = match.groups()
    return None if is_default else _MappingRule(pattern, replacement, case)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    translated = _NAMED_GROUP.sub(lambda match: match[1] or "(?P<", pattern)
    with warnings.catch_warnings():
        # Python warns about constructs that Java reads differently (nested sets).
        warnings.simplefilter("error")
        try:
            return re.compile(translated, re.ASCII)
        except (re.error, Warning, OverflowError, RecursionError) as error:
            raise MappingError(f"the pattern {pattern} cannot be read: {error}") from None


def _escape_missing_groups(replacement: str, groups: int) -> str:
    """Escape references to missing groups with a backslash. As in Kafka the positions of later references do not
    account for inserted backslashes, and a pattern without groups changes nothing.
    """
    if not groups:
        return replacement
    escaped = replacement
    for match in _REFERENCE.finditer(replacement):
        digits = match[1]
        if digits.startswith("0"):
            continue
        if len(digits) > _MAX_DIGITS:
            raise MappingError("refers to a group with an impossible number")
        number = int(digits)
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = escaped[: match.start()] + "\\" + escaped[match.start() :]
    return escaped


def _parse_replacement(replacement: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    """Parse a replacement as Java does, to literal text and group numbers.

    Raises:
        MappingError: Java would reject the replacement; the text names Java's error.
    """
    position = 0
    while position < len(replacement):
        sign = replacement[position]
        position += 1
        if sign == "\\":
            if position == len(replacement):
                raise MappingError("ends with a backslash")
            yield replacement[position]
            position += 1
        elif sign != "$":
            yield sign
        elif (name := _GROUP_NAME.match(replacement, position)) is not None:
            if name[1] not in pattern.groupindex:
                raise MappingError(f"names an unknown group, {name[1]}")
            yield pattern.groupindex[name[1]]
            position = name.end()
        elif position == len(replacement) or replacement[position] not in _GROUP_DIGITS:
            raise MappingError("has a $ without a group; a literal one is \\$")
        else:
            number = int(replacement[position])
            position += 1
            if number > pattern.groups:
                raise MappingError(f"refers to an unknown group, {number}")
            while position < len(replacement) and replacement[position] in _GROUP_DIGITS:
                longer = number * 10 + int(replacement[position])
                if longer > pattern.groups:
                    break
                number = longer
                position += 1
            yield number


_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_ATTRIBUTE_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXT_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED_CHARACTERS: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


class InvalidDer(ValueError):
    """The bytes are not valid DER. The text gives the reason."""


class _DerElement(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


_NO_ELEMENT: Final = _DerElement(-1, b"", b"")


def parse_subject(certificate: bytes) -> str:
    """Return the subject of a DER-encoded certificate; "" if it has none.

    Raises:
        InvalidDer: the certificate is malformed.
    """
    fields = _parse_elements(
        _parse_single(_parse_single(certificate, _SEQUENCE).content, _SEQUENCE, first=True).content
    )
    tag = next(fields, _NO_ELEMENT).tag
    # An optional version, serial number, algorithm, issuer and validity precede the subject.
    for _ in range(4 if tag == _VERSION else 3):
        next(fields, _NO_ELEMENT)
    return parse_distinguished_name(next(fields, _NO_ELEMENT).whole)


def parse_distinguished_name(name: bytes) -> str:
    """Format a DER-encoded distinguished name.

    Raises:
        InvalidDer: the name is malformed.
    """
    sets = [_format_relative_name(each) for each in _parse_elements(_parse_single(name, _SEQUENCE).content)]
    return ",".join(reversed(sets))


def _format_relative_name(element: _DerElement) -> str:
    _require_tag(element, _SET)
    return "+".join(_format_attribute(each) for each in _parse_elements(element.content))


def _format_attribute(element: _DerElement) -> str:
    _require_tag(element, _SEQUENCE)
    parts = list(_parse_elements(element.content))
    if len(parts) != 2:
        raise InvalidDer("an attribute of a name is not a type and a value")
    type_, value = parts
    _require_tag(type_, _OBJECT_IDENTIFIER)
    number = _parse_object_identifier(type_.content)
    name = _ATTRIBUTE_NAMES.get(number)
    if name is None or value.tag not in _TEXT_TAGS:
        return f"{name or number}=#{value.whole.hex()}"
    # Java decodes every text type as UTF-8.
    return f"{name}={_escape_value(value.content.decode(errors='replace'))}"


def _escape_value(text: str) -> str:
    inside = text.strip(_BLANKS)
    begin = text.index(inside) if inside else len(text)
    lead, trail = text[:begin], text[begin + len(inside) :]
    escaped = "".join(
        "\\00" if each == "\0" else f"\\{each}" if each in _ESCAPED_CHARACTERS else each for each in inside
    )
    return "".join(f"\\{each}" for each in lead) + escaped + "".join(f"\\{each}" for each in trail)


def _parse_object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] >= 0x80:
        raise InvalidDer("an object identifier ends early")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _parse_single(data: bytes, tag: int, *, first: bool = False) -> _DerElement:
    """Return the only element, or the first of several."""
    element = next(_parse_elements(data), _NO_ELEMENT)
    _require_tag(element, tag)
    if not first and len(element.whole) != len(data):
        raise InvalidDer("an element is followed by other bytes")
    return element


def _require_tag(element: _DerElement, tag: int) -> None:
    if element.tag != tag:
        raise InvalidDer(f"an element has the tag {element.tag}, not {tag}")


def _parse_elements(data: bytes) -> Iterator[_DerElement]:
    position = 0
    while position < len(data):
        begin = position
        header = data[position : position + 2]
        if len(header) < 2:
            raise InvalidDer("an element ends early")
        position += 2
        length = header[1]
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or position + count > len(data):
                raise InvalidDer("an element has an invalid length")
            length = int.from_bytes(data[position : position + count])
            position += count
        if position + length > len(data):
            raise InvalidDer("an element is longer than the remaining bytes")
        yield _DerElement(header[0], data[position : position + length], data[begin : position + length])
        position += length
