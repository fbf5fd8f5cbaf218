"""Import of `groupd.coordinator` and so on from a checkout, for editable installations.

The finder answers only for modules below `groupd`. The repository's root stays off the search path, so a project in
the same environment cannot import its `tests` or `docs` by accident.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from groupd.relocation import NAMESPACE, PACKAGES, relocate

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_OWN_CACHE: Final = ".relocated.pyc"
"""The repository's own tests import the same files as `coordinator` and keep their bytecode in files `.pyc`."""


def install_finder() -> None:
    """Makes the packages of the checkout importable below `groupd`, once."""
    if not any(isinstance(finder, CheckoutFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CheckoutFinder())


class CheckoutFinder(MetaPathFinder):
    """Finds `groupd.coordinator.daemon` in `coordinator/daemon.py` of the checkout.

    Raises ImportError if a process imports a package of the checkout under both of its names: it would have each
    class twice.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in PACKAGES and f"{NAMESPACE}.{fullname}" in sys.modules:
            _refuse_second_name(fullname, PathFinder.find_spec(fullname, path, target))
        namespace, _, name = fullname.partition(".")
        if namespace != NAMESPACE or name.partition(".")[0] not in PACKAGES:
            return None
        if name in PACKAGES:
            _refuse_second_name(name, getattr(sys.modules.get(name), "__spec__", None))
        spec = PathFinder.find_spec(fullname, [str(_REPOSITORY)] if name in PACKAGES else path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = RelocatingLoader(fullname, spec.loader.path)
        return spec


class RelocatingLoader(SourceFileLoader):
    """Compiles the text that the wheel would have, and caches its bytecode in a file of its own."""

    # The type stubs take it for the static method of InspectLoader.
    def source_to_code(self, data: Any, path: Any, **options: Any) -> CodeType:  # type: ignore[override]
        return super().source_to_code(relocate(data, str(path)), path, **options)

    def get_data(self, path: str) -> bytes:
        return super().get_data(_cache_path(path))

    def set_data(self, path: str, data: Any, **options: Any) -> None:
        super().set_data(_cache_path(path), data, **options)


def _refuse_second_name(name: str, spec: ModuleSpec | None) -> None:
    """Raises ImportError if the package is that of the checkout, and not one of a project."""
    if spec is not None and str(_REPOSITORY / name) in (spec.submodule_search_locations or ()):
        raise ImportError(
            f"{_REPOSITORY / name} is both {name} and {NAMESPACE}.{name} here: use one of these names in a process"
        )


def _cache_path(path: str) -> str:
    return path.removesuffix(".pyc") + _OWN_CACHE if path.endswith(".pyc") else path
