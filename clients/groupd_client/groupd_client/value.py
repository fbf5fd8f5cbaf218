"""JSON values from a daemon, with fields as attributes."""

from collections.abc import Iterator, Mapping
from typing import Any


class Value(Mapping[str, Any]):
    """A JSON object. `value.generation_id` is `value["generation_id"]`. Objects within it are values as well."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {name: as_value(each) for name, each in fields.items()}

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(
                f"the response has no field {name}; it has {', '.join(self._fields)}"
            ) from None

    def __repr__(self) -> str:
        return f"Value({self._fields!r})"


def as_value(json: Any) -> Any:
    """Convert the objects in a JSON value to `Value`, also those in lists."""
    if isinstance(json, dict):
        return Value(json)
    if isinstance(json, list):
        return [as_value(each) for each in json]
    return json
