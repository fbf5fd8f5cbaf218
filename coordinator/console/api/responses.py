"""Answers of the API: JSON, text for people, problems (RFC 9457), in the form that aiohttp sends."""

from typing import Any, Final

import msgspec
from aiohttp import web

from coordinator.control.problem import Problem, ProblemKind

BASE: Final = "/v1"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Of every answer. There is no CORS header among them: pages of other sites are told nothing."""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for and is not so, or cannot be. `detail` is a sentence that can be printed as it is;
    `type` is urn:groupd: and a word. Further fields depend on it: `pointer` (JSON pointer) is the field that is
    wrong."""

    type: str
    title: str
    status: int
    detail: str


def is_api(path: str) -> bool:
    """Whether a path is one of the API's, or would be."""
    return path == BASE or path.startswith(f"{BASE}/")


def value_response(value: Any) -> web.Response:
    """A value as JSON; nothing for None."""
    if value is None:
        return web.Response(status=204, headers=HEADERS)
    return web.Response(body=msgspec.json.encode(value), content_type=JSON, headers=HEADERS)


def text_response(text: str) -> web.Response:
    """What people read."""
    body = text if text.endswith("\n") else f"{text}\n"
    return web.Response(text=body, content_type="text/plain", headers=HEADERS)


def problem_response(problem: Problem) -> web.Response:
    """A problem as problem+json."""
    kind = problem.kind
    headers = dict(HEADERS)
    if kind is ProblemKind.BAD_TOKEN:
        headers["WWW-Authenticate"] = 'Bearer realm="groupd"'
    if kind is ProblemKind.NO_SUCH_METHOD:
        headers["Allow"] = ", ".join(map(str, _list(problem.fields.get("allowed"))))
    document = {
        "type": f"urn:groupd:{kind.word}",
        "title": problem.title,
        "status": kind.status,
        "detail": problem.detail,
        **problem.fields,
    }
    body = msgspec.json.encode(document)
    return web.Response(status=kind.status, body=body, content_type=PROBLEM, headers=headers)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def wants_text(accept: str) -> bool:
    """Whether a request asks for text and not for JSON (Accept)."""
    return "text/plain" in accept.lower() and JSON not in accept.lower()
