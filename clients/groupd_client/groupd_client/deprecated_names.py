"""Names of version 0.1 that have changed. They work for one release, with a DeprecationWarning."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def find_renamed(module: str, name: str, present: Mapping[str, Callable[..., Any]]) -> object:
    """Return the object with a former name, for the `__getattr__` of a module.

    Args:
        module: the name of the module.
        name: the former name.
        present: classes and functions by their former names.

    Raises:
        AttributeError: the name is not a former name.
    """
    if name not in present:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_renamed(f"{module}.{name}", f"{module}.{present[name].__name__}", stacklevel=4)
    return present[name]


def warn_renamed(former: str, name: str, stacklevel: int = 3) -> None:
    """Warn of a former name. `stacklevel` is that of `warnings.warn`: 3 for the caller of the caller."""
    warnings.warn(f"{former} is deprecated: use {name}", DeprecationWarning, stacklevel=stacklevel)
