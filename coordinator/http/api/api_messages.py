"""Requests and responses of the API: parses queries, paths and JSON bodies into the types that a route
declares, and encodes JSON, text and problems (RFC 9457).

A JSON pointer locates the error in a request. Bodies are limited in size, for one request and for all
together, and in time.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Struct, inspect

from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable, suggest
from coordinator.core.wire_name import wire_name

BASE_PATH: Final = "/v1"
JSON_TYPE: Final = "application/json"
PROBLEM_TYPE: Final = "application/problem+json"
HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every response. Without a CORS header, pages of other origins cannot read it."""
_ERROR_PLACE: Final = re.compile(r" - at `(?:key in )?\$(.*)`$")
_FIELD_ERROR: Final = re.compile(r"(unknown|required) field `(.*)`", re.DOTALL)
_ENUM_ERROR: Final = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_PATH_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_EMPTY_BODIES: Final = (b"", b"null")
_MAX_TEXT: Final = 500


def bad_request(pointer: str, title: str, detail: str) -> Problem:
    """Return the problem of an invalid request. `pointer` locates the error; "" means the whole request."""
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})


def decode_body(wanted: Any, body: bytes | bytearray) -> Any:
    """Decode a body. No body and `null` mean the same as an empty object. Raises Problem (bad-request)."""
    try:
        return msgspec.json.decode(b"{}" if body.strip() in _EMPTY_BODIES else body, type=wanted)
    except msgspec.ValidationError as error:
        raise _convert_error("body", wanted, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(
            "", "The body is not JSON", f"The body is not JSON: {_shorten(str(error))}."
        ) from error
    except RecursionError as error:
        raise bad_request("", "The body is nested too deeply", "The body is nested too deeply.") from error


def decode_query(wanted: type[msgspec.Struct] | None, pairs: Iterable[tuple[str, str]]) -> Any:
    """Decode a query into the declared type. A list field may be repeated. Raises Problem (bad-request)."""
    values: dict[str, list[str]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(text)
    if wanted is None:
        if not values:
            return None
        name = printable(next(iter(values)))
        raise bad_request(
            f"/{name}", f"{name} is unknown", f"This operation takes no query parameters, but got {name}."
        )
    lists = {name for name, hint in get_type_hints(wanted).items() if "list" in str(hint)}
    for name, texts in values.items():
        if len(texts) > 1 and name not in lists:
            name = printable(name)
            raise bad_request(f"/{name}", f"{name} is given twice", f"The query names {name} more than once.")
    given = {name: texts if name in lists else texts[0] for name, texts in values.items()}
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise _convert_error("query", wanted, str(error)) from error


def decode_path(names: Mapping[str, str]) -> dict[str, str]:
    """Return the path parameters. Raises Problem for a parameter that is not UTF-8."""
    for name, value in names.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise bad_request("", "The path is not UTF-8", f"The {name} in the path is not UTF-8.") from error
    return dict(names)


def _convert_error(where: str, wanted: Any, error: str) -> Problem:
    """Convert a message of msgspec into a problem. The message is a sentence and a location in msgspec's
    notation."""
    steps, message = [], error
    at = _ERROR_PLACE.search(error)
    if at is not None:
        message = error[: at.start()]
        # msgspec leaves out the key of a mapping: "...".
        path = at[1].partition("[...]")[0]
        steps = [name or index for name, index in _PATH_STEP.findall(path)]
    hint = _find_hint(message, wanted, steps)
    field = _FIELD_ERROR.search(message)
    pointer = _shorten("".join(f"/{step}" for step in [*steps, *([field[2]] if field else [])]))
    place = f" at {pointer}" if pointer else ""
    return bad_request(
        pointer,
        f"The {where} is invalid{place}",
        f"The {where} is invalid{place}: {_shorten(message)}{hint}.",
    )


def _find_hint(message: str, wanted: Any, steps: Sequence[str]) -> str:
    """Suggest a field or a value that is similar to a name that msgspec rejected."""
    field, value = _FIELD_ERROR.search(message), _ENUM_ERROR.search(message)
    if field is not None and field[1] == "unknown":
        fields = [name for kind in _find_types_at(wanted, steps) for name in _list_fields(kind)]
        return f" {suggest(field[2], fields)}" if fields else " (it takes no parameters)"
    if value is not None:
        valid = [str(one) for kind in _find_types_at(wanted, steps) for one in _list_values(kind)]
        return f" {suggest(value[1], valid)}" if valid else ""
    return ""


def _find_types_at(wanted: Any, steps: Sequence[str]) -> list[inspect.Type]:
    """Return the types that are allowed at a location of a document."""
    found = _list_alternatives(inspect.type_info(wanted))
    for step in steps:
        found = [
            one for kind in found for inner in _find_inner(kind, step) for one in _list_alternatives(inner)
        ]
    return found


def _list_alternatives(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _list_alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [one for each in kind.types for one in _list_alternatives(each)]
    return [kind]


def _find_inner(kind: inspect.Type, step: str) -> list[inspect.Type]:
    match kind:
        case inspect.StructType():
            return [field.type for field in kind.fields if field.encode_name == step]
        case inspect.DictType():
            return [kind.value_type]
        case inspect.ListType() | inspect.VarTupleType():
            return [kind.item_type]
    return []


def _list_fields(kind: inspect.Type) -> list[str]:
    return [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []


def _list_values(kind: inspect.Type) -> list[object]:
    match kind:
        case inspect.LiteralType():
            return list(kind.values)
        case inspect.EnumType():
            return [member.value for member in kind.cls]
    return []


def _shorten(text: str) -> str:
    return printable(text, _MAX_TEXT)


MAX_BODY_BYTES: Final = 1024 * 1024
MAX_ALL_BODY_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of all incomplete bodies together, in bytes. A larger total is refused."""
SMALL_BODY_BYTES: Final = 64 * 1024
"""The size in bytes up to which a body is always accepted."""

BodyReception = Callable[[web.Request], AbstractContextManager[None]]


class NoParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a route without parameters. Many HTTP clients send `{}` with every POST."""


class BodyReader:
    """Reads the bodies of requests, and limits the bytes of bodies that are being received."""

    def __init__(self, request_timeout_s: float, receiving: BodyReception) -> None:
        """Create a reader. `receiving` returns a context manager that is active while a body arrives."""
        self._request_timeout_s = request_timeout_s
        self._receiving = receiving
        self._received_bytes = 0

    async def read_value(self, body_type: Any, request: web.Request) -> Any:
        """Read and decode the body of a request.

        `body_type` is the type that the route declares; None for a route without parameters, which accepts an empty
        object. Raises Problem (bad-request, not-json, too-large, too-many).
        """
        kind = NoParameters if body_type is None else body_type
        if not request.body_exists:
            return decode_body(kind, b"")
        _check_json(request)
        return decode_body(kind, await self._read_body(request))

    async def _read_body(self, request: web.Request) -> bytearray:
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise _create_too_large()
        body = bytearray()
        try:
            with self._receiving(request):
                async with asyncio.timeout(self._request_timeout_s):
                    async for piece in request.content.iter_any():
                        body += piece
                        self._received_bytes += len(piece)
                        self._check_size(len(body))
        except TimeoutError as error:
            detail = (
                f"The body did not arrive within {self._request_timeout_s:g} s (http.request.timeout.ms)."
            )
            raise bad_request("", "The body is too slow", detail) from error
        except web.RequestPayloadError as error:
            raise bad_request("", "The body is malformed", "The body violates HTTP.") from error
        finally:
            self._received_bytes -= len(body)
        return body

    def _check_size(self, size: int) -> None:
        """Check the size of an incomplete body, in bytes. Raises Problem (too-large; too-many)."""
        if size > MAX_BODY_BYTES:
            raise _create_too_large()
        if size > SMALL_BODY_BYTES and self._received_bytes > MAX_ALL_BODY_BYTES:
            detail = f"All pending bodies together exceed {MAX_ALL_BODY_BYTES} bytes."
            raise Problem(ProblemKind.TOO_MANY, "There are too many large bodies", detail)


def is_body_read(request: web.Request) -> bool:
    """Return whether the whole body of a request has arrived."""
    return request.content.at_eof() if request.body_exists else True


def _check_json(request: web.Request) -> None:
    """Refuse a body without a JSON type: a browser does not send JSON to another origin without permission."""
    is_declared = "Content-Type" in request.headers
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if not is_declared or request.content_type.lower() != JSON_TYPE or encoding != "identity":
        raise Problem(
            ProblemKind.NOT_JSON,
            "The body is not JSON",
            f"Content-Type must be {JSON_TYPE}, without Content-Encoding.",
        )


def _create_too_large() -> Problem:
    detail = f"The body has more than {MAX_BODY_BYTES} bytes."
    return Problem(ProblemKind.TOO_LARGE, "The body is too large", detail)


@wire_name("ProblemDocument")
class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A refused or unsatisfied request (RFC 9457).

    `detail` is a sentence to print. `type` is `urn:groupd:` and a word, on which further fields depend, such as
    `pointer` (the JSON pointer of the invalid field).
    """

    type: str
    title: str
    status: int
    detail: str


def is_api(path: str) -> bool:
    """Return whether a path belongs to the API, even if no operation has it."""
    return path == BASE_PATH or path.startswith(f"{BASE_PATH}/")


def value_response(value: Any) -> web.Response:
    """Return a response with a value as JSON, or an empty response for None."""
    if value is None:
        return web.Response(status=204, headers=HEADERS)
    return web.Response(body=msgspec.json.encode(value), content_type=JSON_TYPE, headers=HEADERS)


def text_response(text: str) -> web.Response:
    """Return a response of plain text, which ends with a newline."""
    body = text if text.endswith("\n") else f"{text}\n"
    return web.Response(text=body, content_type="text/plain", headers=HEADERS)


def problem_response(problem: Problem) -> web.Response:
    """Return a response with a problem as problem+json."""
    kind = problem.kind
    headers = dict(HEADERS)
    if kind is ProblemKind.BAD_TOKEN:
        headers["WWW-Authenticate"] = 'Bearer realm="groupd"'
    if kind is ProblemKind.NO_SUCH_METHOD:
        headers["Allow"] = ", ".join(map(str, _as_list(problem.fields.get("allowed"))))
    document = {
        "type": f"urn:groupd:{kind.word}",
        "title": problem.title,
        "status": kind.status,
        "detail": problem.detail,
        **problem.fields,
    }
    body = msgspec.json.encode(document)
    return web.Response(status=kind.status, body=body, content_type=PROBLEM_TYPE, headers=headers)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def wants_text(accept: str) -> bool:
    """Return whether a request prefers text to JSON, by its Accept header."""
    return "text/plain" in accept.lower() and JSON_TYPE not in accept.lower()
