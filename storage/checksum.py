"""CRC32C, from the extension module of the package `crc32c` alone.

Importing the package itself imports its command line and the metadata of every installed package, which takes
longer than importing this whole engine. If the extension alone is not found, the package is imported.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _find_crc32c() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("_crc32c", list(places))
    if spec is None or spec.loader is None:
        from crc32c import crc32c as found

        return found
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    extension: Callable[..., int] = module.crc32c
    return extension


crc32c = _find_crc32c()
"""Compute the checksum of bytes, `crc32c(data, value=0)`, as an unsigned 32-bit number. `value` is the
checksum of the preceding bytes."""
