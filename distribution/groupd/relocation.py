"""Relocation of the repository's packages below `groupd`.

The sources say `from coordinator.network import ...`; an installation has `groupd.coordinator.network`. The
build of the wheel rewrites the import statements, as a Java build does for a shaded jar, and nothing else:
line numbers stay. A line that it cannot rewrite safely fails the build. This module imports only the
standard library, because the build runs it by its path.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAMESPACE: Final = "groupd"
PACKAGES: Final = ("coordinator", "pipeline", "protocol", "storage")
"""The packages at the top of the repository, in the order of their names."""

_HERE: Final = Path(__file__).parent
_NOT_SHIPPED: Final = ("checkout.py", "relocation.py")
"""Modules of `groupd` that only a checkout needs."""
_FROM: Final = re.compile(rb"from[ \t]+(?=\w)")
_MODULE_NAME: Final = re.compile(rf"({'|'.join(PACKAGES)})\.[\w.:]*")
"""Also the beginning of one in an f-string, and an entry point such as "coordinator.cli.main:main"."""
_TAKES_MODULE: Final = frozenset(
    {"__import__", "files", "find_spec", "import_module", "PackageLoader", "run_module"}
)
"""Functions that take a module name first. In other places "storage" is a common word."""
_DERIVE: Final = "derive the name from `__name__` or `__package__`"


class NotRelocatable(ValueError):
    """A line names a module of the repository in a way that relocation cannot rewrite."""


def relocate(source: bytes, path: str) -> bytes:
    """Prefix the repository's packages with `groupd.` in all import statements of a module. The result has the same
    lines.

    Args:
        source: the module's text in UTF-8.
        path: its path, for error messages.

    Raises:
        NotRelocatable: an import has an unsupported form; the text has the line and the accepted form.
        SyntaxError: the module is not valid Python.
    """
    lines = source.split(b"\n")
    tree = ast.parse(source, path)
    for line, column in sorted(_insertions(tree, lines, path), reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + NAMESPACE.encode() + b"." + text[column:]
    return b"\n".join(lines)


def _insertions(tree: ast.Module, lines: list[bytes], path: str) -> Iterator[tuple[int, int]]:
    """Lines, from 1, and the columns in bytes where a module name of the repository begins."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(level=0, module=str(module)) if _is_relocated(module):
                keyword = _FROM.match(lines[node.lineno - 1], node.col_offset)
                if keyword is None:
                    raise _not_relocatable(
                        path, node.lineno, module, f"write `from {module} import` on one line"
                    )
                yield node.lineno, keyword.end()
            case ast.Import():
                for alias in node.names:
                    if not _is_relocated(alias.name):
                        continue
                    if alias.asname is None:
                        parent, _, name = alias.name.rpartition(".")
                        advice = (
                            f"write `from {parent} import {name}`"
                            if parent
                            else "import what you need from it"
                        )
                        raise _not_relocatable(path, alias.lineno, alias.name, advice)
                    yield alias.lineno, alias.col_offset
            case ast.Constant(value=str(text)) if _MODULE_NAME.fullmatch(text):
                raise _not_relocatable(path, node.lineno, text, _DERIVE)
            case ast.Call(args=[ast.Constant(value=str(text)), *_]) if text in PACKAGES:
                if ast.unparse(node.func).rpartition(".")[2] in _TAKES_MODULE:
                    raise _not_relocatable(path, node.lineno, text, _DERIVE)


def _is_relocated(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _not_relocatable(path: str, line: int, name: str, advice: str) -> NotRelocatable:
    return NotRelocatable(
        f"{path}:{line}: the wheel has no module {name!r}, but {NAMESPACE}.{name}: {advice}"
    )


def shipped_files(repository: Path) -> dict[str, Path]:
    """The files of an installation, in order: by their paths below `groupd/`, their paths in the repository."""
    own = {path.name: path for path in files_below(_HERE) if path.name not in _NOT_SHIPPED}
    packages = {
        path.relative_to(repository).as_posix(): path
        for package in PACKAGES
        if (repository / package).is_dir()  # the image of the daemon is built without `pipeline`
        for path in files_below(repository / package)
    }
    return own | packages


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and its folders, in order, without bytecode and hidden files."""
    for path in sorted(folder.iterdir()):
        if path.name == "__pycache__" or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from files_below(path)
        else:
            yield path


def write_relocated(repository: Path, destination: Path) -> None:
    """Writes the package `groupd` as it is installed. Raises NotRelocatable."""
    for name, path in shipped_files(repository).items():
        body = path.read_bytes()
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(relocate(body, str(path)) if path.suffix == ".py" else body)
