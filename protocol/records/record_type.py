"""What there is to say of a type of record, all in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol.schema import message_info
from protocol.versions import VersionRange


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of record of `__consumer_offsets`: what its keys begin with, and Kafka's name for it. Where there is
    no more to say, its records are not served: they stay in the log as they are."""

    number: int
    name: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that its keys may begin with."""
        return (self.number,)


@dataclass(frozen=True, slots=True)
class ServedType(RecordType):
    """A type whose records are read and written here: the schemas of key and value, and in which version a value is
    written. Keys of the same fields began with `older_numbers` once."""

    key: type[Any]
    value: type[Any]
    version_of: Callable[[Any], int]
    older_numbers: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that its keys may begin with."""
        return (*self.older_numbers, self.number)

    @property
    def value_versions(self) -> VersionRange:
        """The versions in which a value may have been written."""
        return message_info(self.value).versions
