"""What a request says, as the values that its route declares. What is wrong is named by a JSON pointer."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable

_AT: Final = re.compile(r" - at `(?:key in )?\$(.*)`$")
_FIELD: Final = re.compile(r"(?:unknown|required) field `(.*)`")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_MAX_SAID: Final = 500


def bad_request(pointer: str, title: str, detail: str) -> Problem:
    """What is wrong with a request, and where; "" is all of it."""
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})


def body_value(wanted: Any, body: bytes | bytearray) -> Any:
    """What a body says; an empty one, what an empty object would. Raises Problem."""
    try:
        return msgspec.json.decode(body or b"{}", type=wanted)
    except msgspec.ValidationError as error:
        raise _wrong("body", wanted, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request("", "The body is no JSON", f"The body is no JSON: {_said(str(error))}.") from error
    except RecursionError as error:
        raise bad_request("", "The body is nested too deeply", "The body is nested too deeply.") from error


def query_value(wanted: type[msgspec.Struct] | None, pairs: Iterable[tuple[str, str]]) -> Any:
    """What a query says; a field that is a list may be named several times. Raises Problem."""
    values: dict[str, list[str]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(text)
    if wanted is None:
        if not values:
            return None
        name = printable(next(iter(values)))
        raise bad_request(f"/{name}", f"{name} is unknown", f"This takes no query, and {name} is one.")
    lists = {name for name, hint in get_type_hints(wanted).items() if "list" in str(hint)}
    for name, texts in values.items():
        if len(texts) > 1 and name not in lists:
            name = printable(name)
            raise bad_request(f"/{name}", f"{name} is there twice", f"The query names {name} more than once.")
    given = {name: texts if name in lists else texts[0] for name, texts in values.items()}
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong("query", wanted, str(error)) from error


def path_values(names: Mapping[str, str]) -> dict[str, str]:
    """The names in a path. Raises Problem where one is no text."""
    for name, value in names.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise bad_request("", "The path is no text", f"The {name} in the path is no UTF-8.") from error
    return dict(names)


def _wrong(where: str, wanted: Any, error: str) -> Problem:
    """A problem, made of what msgspec says: a sentence, and the place in its own form."""
    pointer, said = "", error
    at = _AT.search(error)
    if at is not None:
        said = error[: at.start()]
        # What a key of a mapping is called is not said: "...".
        path = at[1].partition("[...]")[0]
        pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(path))
    field = _FIELD.search(said)
    if field is not None:
        known = "" if pointer else f" (there are {', '.join(wanted.__struct_fields__)})"
        said, pointer = said + known, f"{pointer}/{field[1]}"
    pointer = _said(pointer)
    place = f" at {pointer}" if pointer else ""
    return bad_request(
        pointer, f"The {where} is wrong{place}", f"The {where} is wrong{place}: {_said(said)}."
    )


def _said(text: str) -> str:
    return printable(text, _MAX_SAID)
