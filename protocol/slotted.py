"""Dataclasses that cost little to define.

`dataclasses.dataclass` generates and compiles comparison and text for every class anew. The daemon declares
some hundred messages and events, and their definition would take a good part of its start; here one function
serves all of them, and only `__init__` is generated.
"""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform()
def slotted(cls: type[T]) -> type[T]:
    """A mutable dataclass with slots that compares and prints by its fields."""
    made = dataclass(slots=True, eq=False, repr=False, match_args=False)(cls)
    for name, method in (("__eq__", _equal), ("__repr__", _text), ("__hash__", None)):
        setattr(made, name, method)
    return made


def _equal(self: Any, other: object) -> Any:
    names = self.__dataclass_fields__
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in names)


def _text(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__name__}({values})"
