"""A token of OAUTHBEARER taken apart: a JSON Web Signature in its compact form, of which nothing is verified here.

    token:   base64url(header) . base64url(claims) . base64url(signature)

No error says any of the token.

Source: RFC 7515, RFC 7519. Stricter than what Kafka's validators take: a name that comes twice, and bytes after the
JSON, are refused of every token.
"""

import json
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

_PARTS: Final = 3
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_QUARTET: Final = 4


class NotAToken(ValueError):
    """What cannot be taken apart. The text says what is missing, never what is there."""


@dataclass(frozen=True, slots=True)
class Jws:
    """See the top of this file. Names and values of the header and of the claims are those of the JSON."""

    header: dict[str, Any] = field(repr=False)
    claims: dict[str, Any] = field(repr=False)
    signature: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    """What the signature is made of."""


def parse_jws(token: str) -> Jws:
    """Takes a token apart. Raises NotAToken."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise NotAToken(f"a token has {_PARTS} parts, and this one {len(parts)}")
    header, claims, signature = parts
    return Jws(
        _json(header, "header"),
        _json(claims, "claims"),
        _decoded(signature, "signature"),
        f"{header}.{claims}".encode(),
    )


def is_number(value: object) -> bool:
    """Whether a value of JSON is a number; in Python true and false are as well."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decoded(part: str, name: str) -> bytes:
    if _BASE64URL.fullmatch(part) is None or len(part) % _QUARTET == 1:
        raise NotAToken(f"the {name} of the token is not in base64url")
    return urlsafe_b64decode(part + "=" * (-len(part) % _QUARTET))


def _json(part: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(
            _decoded(part, name).decode(), object_pairs_hook=_each_once, parse_constant=_no_number
        )
    except NotAToken:
        raise
    except (ValueError, RecursionError):
        raise NotAToken(f"the {name} of the token is not JSON") from None
    if not isinstance(value, dict):
        raise NotAToken(f"the {name} of the token is no JSON object")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_number(_: str) -> NoReturn:
    """NaN and Infinity, which Python would take."""
    raise ValueError
