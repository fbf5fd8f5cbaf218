"""Names of classes outside the process: in metrics, events, faults, recordings and the API.

Other programs and recordings see a class by its wire name only. The name is declared above the class and is never
computed from it: a class can be renamed or moved, and its wire name stays.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

_Class = TypeVar("_Class", bound=type[Any])

_WIRE_NAMES: Final[dict[type[Any], str]] = {}


def wire_name(name: str) -> Callable[[_Class], _Class]:
    """Declare the name of a class outside the process. Subclasses do not inherit it.

    This is the outermost decorator, because `dataclass(slots=True)` creates another class.
    """

    def declare(cls: _Class) -> _Class:
        _WIRE_NAMES[cls] = name
        return cls

    return declare


def get_wire_name(cls: type[Any]) -> str:
    """Return the declared name of a class. Raises KeyError if the class declares none."""
    return _WIRE_NAMES[cls]


def classes_by_wire_name(base: type[Any]) -> dict[str, type[Any]]:
    """Return the classes below `base` that declare a name, by that name, for all imported modules."""
    found: dict[str, type[Any]] = {}
    for cls in _subclasses(base):
        if cls in _WIRE_NAMES:
            other = found.setdefault(_WIRE_NAMES[cls], cls)
            assert other is cls, f"{cls} and {other} have the same wire name"
    return found


def _subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _subclasses(cls)


def error_name(error: BaseException) -> str:
    """Return the wire name of the class of an error, or the name of the class if it declares none."""
    cls = type(error)
    return _WIRE_NAMES.get(cls, cls.__name__)


def error_text(error: BaseException) -> str:
    """Return name and message of an error."""
    return f"{error_name(error)}: {error}"
