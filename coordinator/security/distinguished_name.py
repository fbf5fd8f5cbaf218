"""The subject of a certificate as text, as Java writes it, which is what Kafka's rules and ACLs are about.

    CN=alice,OU=billing+OU=test,O=Example,1.2.840.113549.1.9.1=#1603614062

The last relative name comes first. Nine types have a name, any other one is its number, with the value as it is
encoded; so is a value that is no text.

Source: RFC 2253; Java's `X500Principal.getName`, `AVA.toRFC2253String`; X.690 for the encoding.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_NAMES: Final = {
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
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


class NotDer(ValueError):
    """Bytes that are not encoded as a certificate is. The text says what is wrong."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


_END: Final = _Element(-1, b"", b"")


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate; "" where it has none. In: its DER encoding. Raises NotDer."""
    fields = _elements(_only(_only(certificate, _SEQUENCE).content, _SEQUENCE, first=True).content)
    tag = next(fields, _END).tag
    # Serial number, algorithm, issuer and validity stand before it; a version may stand before these.
    for _ in range(4 if tag == _VERSION else 3):
        next(fields, _END)
    return name_of(next(fields, _END).whole)


def name_of(name: bytes) -> str:
    """A distinguished name. In: its DER encoding. Raises NotDer."""
    sets = [_relative_name(each) for each in _elements(_only(name, _SEQUENCE).content)]
    return ",".join(reversed(sets))


def _relative_name(element: _Element) -> str:
    _expect(element, _SET)
    return "+".join(_attribute(each) for each in _elements(element.content))


def _attribute(element: _Element) -> str:
    _expect(element, _SEQUENCE)
    parts = list(_elements(element.content))
    if len(parts) != 2:
        raise NotDer("an attribute of a name is not a type and a value")
    type_, value = parts
    _expect(type_, _OBJECT_IDENTIFIER)
    number = _object_identifier(type_.content)
    name = _NAMES.get(number)
    if name is None or value.tag not in _TEXTS:
        return f"{name or number}=#{value.whole.hex()}"
    # Of whatever type the text is, Java takes it for UTF-8.
    return f"{name}={_escape(value.content.decode(errors='replace'))}"


def _escape(text: str) -> str:
    inside = text.strip(_BLANKS)
    begin = text.index(inside) if inside else len(text)
    lead, trail = text[:begin], text[begin + len(inside) :]
    escaped = "".join(
        "\\00" if each == "\0" else f"\\{each}" if each in _ESCAPED else each for each in inside
    )
    return "".join(f"\\{each}" for each in lead) + escaped + "".join(f"\\{each}" for each in trail)


def _object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] >= 0x80:
        raise NotDer("an object identifier ends early")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _only(data: bytes, tag: int, *, first: bool = False) -> _Element:
    """The one element that there is, or the first of several."""
    element = next(_elements(data), _END)
    _expect(element, tag)
    if not first and len(element.whole) != len(data):
        raise NotDer("something follows where nothing should")
    return element


def _expect(element: _Element, tag: int) -> None:
    if element.tag != tag:
        raise NotDer(f"an element has the tag {element.tag}, not {tag}")


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        begin = at
        header = data[at : at + 2]
        if len(header) < 2:
            raise NotDer("an element ends early")
        at += 2
        length = header[1]
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise NotDer("an element has no length")
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > len(data):
            raise NotDer("an element is longer than what there is")
        yield _Element(header[0], data[at : at + length], data[begin : at + length])
        at += length
