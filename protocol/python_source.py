"""Writing Python source: lines with indentation, fresh variable names, constants for the namespace."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class PythonSource:
    """Source text under construction and the names that it refers to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 0
        self._names = 0
        self.namespace: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Append one line at the current indentation."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head` as the first line of a block. Lines that are written inside the context are indented."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def variable(self, name: str) -> str:
        """Return an unused variable name that contains `name`."""
        self._names += 1
        return f"{name}_{self._names}"

    def struct(self, letters: str, method: str) -> str:
        """Return the name of `struct.Struct(">" + letters).<method>`, which is bound in the namespace."""
        name = f"{method}_{letters.replace('?', 'o')}"
        self.namespace[name] = getattr(Struct(">" + letters), method)
        return name

    def constant(self, name: str, value: Any) -> str:
        """Bind `value` in the namespace. Return its name."""
        assert self.namespace.get(name, value) is value, f"two meanings of {name}"
        self.namespace[name] = value
        return name

    def text(self) -> str:
        """The source text of all lines."""
        return "\n".join(self._lines) + "\n"


class FixedRun:
    """Adjacent fixed-width values, which one `struct` call reads or writes."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.names: list[str] = []

    def add(self, letter: str, name: str) -> None:
        """Add a value: its `struct` letter, and the variable or expression for it."""
        self.letters.append(letter)
        self.names.append(name)

    def take_values(self) -> tuple[str, list[str]]:
        """Return the run so far as (letters, names), and begin a new one."""
        taken = "".join(self.letters), self.names
        self.letters, self.names = [], []
        return taken

    def copy(self) -> "FixedRun":
        """Return a copy of the run for another branch of the generated code."""
        copied = FixedRun()
        copied.letters, copied.names = self.letters.copy(), self.names.copy()
        return copied
