"""What a request says, as the values that its route declares. What is wrong is named by a JSON pointer."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import inspect

from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable
from coordinator.suggestions import suggest

_AT: Final = re.compile(r" - at `(?:key in )?\$(.*)`$")
_FIELD: Final = re.compile(r"(unknown|required) field `(.*)`", re.DOTALL)
_VALUE: Final = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_EMPTY: Final = (b"", b"null")
_MAX_SAID: Final = 500


def bad_request(pointer: str, title: str, detail: str) -> Problem:
    """What is wrong with a request, and where; "" is all of it."""
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})


def body_value(wanted: Any, body: bytes | bytearray) -> Any:
    """Decode a body. No body and `null` mean the same as an empty object. Raises Problem (bad-request)."""
    try:
        return msgspec.json.decode(b"{}" if body.strip() in _EMPTY else body, type=wanted)
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
    """Make a problem of msgspec's message: a sentence, then the place in msgspec's own form."""
    steps, said = [], error
    at = _AT.search(error)
    if at is not None:
        said = error[: at.start()]
        # msgspec does not name the key of a mapping: "...".
        path = at[1].partition("[...]")[0]
        steps = [name or index for name, index in _STEP.findall(path)]
    hint = _hint(said, wanted, steps)
    field = _FIELD.search(said)
    pointer = _said("".join(f"/{step}" for step in [*steps, *([field[2]] if field else [])]))
    place = f" at {pointer}" if pointer else ""
    return bad_request(
        pointer, f"The {where} is wrong{place}", f"The {where} is wrong{place}: {_said(said)}{hint}."
    )


def _hint(said: str, wanted: Any, steps: Sequence[str]) -> str:
    """Suggest the field or the value that was meant, where msgspec refuses a name."""
    field, value = _FIELD.search(said), _VALUE.search(said)
    if field is not None and field[1] == "unknown":
        fields = [name for kind in _types_at(wanted, steps) for name in _fields(kind)]
        return f" {suggest(field[2], fields)}" if fields else " (it takes no parameters)"
    if value is not None:
        valid = [str(one) for kind in _types_at(wanted, steps) for one in _values(kind)]
        return f" {suggest(value[1], valid)}" if valid else ""
    return ""


def _types_at(wanted: Any, steps: Sequence[str]) -> list[inspect.Type]:
    """Return the types that a value at this place of a document may have."""
    found = _alternatives(inspect.type_info(wanted))
    for step in steps:
        found = [one for kind in found for inner in _inside(kind, step) for one in _alternatives(inner)]
    return found


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [one for each in kind.types for one in _alternatives(each)]
    return [kind]


def _inside(kind: inspect.Type, step: str) -> list[inspect.Type]:
    match kind:
        case inspect.StructType():
            return [field.type for field in kind.fields if field.encode_name == step]
        case inspect.DictType():
            return [kind.value_type]
        case inspect.ListType() | inspect.VarTupleType():
            return [kind.item_type]
    return []


def _fields(kind: inspect.Type) -> list[str]:
    return [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []


def _values(kind: inspect.Type) -> list[object]:
    match kind:
        case inspect.LiteralType():
            return list(kind.values)
        case inspect.EnumType():
            return [member.value for member in kind.cls]
    return []


def _said(text: str) -> str:
    return printable(text, _MAX_SAID)
