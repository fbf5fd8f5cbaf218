"""Names of version 0.1 that have changed. They work for one release, with a DeprecationWarning."""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupd_client.operation import ApiEndpoint


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


class FormerNames:
    """Former names of the attributes of a broker."""

    _endpoint: "ApiEndpoint"

    @property
    def door(self) -> "ApiEndpoint":
        """Return `endpoint`. Deprecated."""
        warn_renamed("Broker.door", "Broker.endpoint")
        return self._endpoint
