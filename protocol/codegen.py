"""The generated codec: straight-line Python for one version of one message, generated on first use.

`python -m protocol.codegen JoinGroupRequest 9` prints the code that the daemon runs. Nothing generated is kept
in the repository; the declaration in `protocol/messages` is the source.
"""

import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar, cast

from protocol.decode_source import DecoderSource
from protocol.encode_source import EncoderSource
from protocol.primitives import DecodingBudget
from protocol.python_source import PythonSource
from protocol.schema import message_info

F = TypeVar("F", bound=Callable[..., Any])


def generate_decoder(
    cls: type[Any], version: int, whole: bool = True, budget: DecodingBudget | None = None
) -> PythonSource:
    """Generate the source of `decode(data, p=0) -> message`, with the names that it needs.

    Args:
        cls: the message class.
        version: its version.
        whole: whether the message must end with the data.
        budget: the limits beyond which the function raises Malformed; None for no limit.
    """
    source = PythonSource()
    source.namespace["struct_error"] = struct.error
    DecoderSource(source, cls, version, version in message_info(cls).flexible, whole, budget)
    return source


def generate_encoder(cls: type[Any], version: int, bounded: bool = False) -> PythonSource:
    """Generate the source of `write(message, out: bytearray)`, with the names that it needs.

    `bounded` adds a parameter `most: int`. The function then raises TooLong if `out` exceeds `most` bytes.
    """
    source = PythonSource()
    EncoderSource(source, cls, version, version in message_info(cls).flexible, bounded)
    return source


def keep_functions(generate: F) -> F:
    """Cache the functions that `generate` returns by its arguments."""
    return cast("F", cache(generate))


def compile_function(source: PythonSource, name: str, origin: str) -> Callable[..., Any]:
    """Execute `source` and return its function `name`. Tracebacks show <origin> as the file name."""
    exec(compile(source.text(), f"<{origin}>", "exec"), source.namespace)
    made: Callable[..., Any] = source.namespace[name]
    return made


USAGE: Final = f"usage: python -m {__package__}.codegen MESSAGE VERSION, as in: JoinGroupRequest 9\n"


def main(arguments: list[str]) -> int:
    """Print the decoder and the encoder of a message version. Return 2 if the arguments do not name one."""
    from protocol.apis import find_message_class

    try:
        name, version = arguments[0], int(arguments[1])
        cls = find_message_class(name)
    except (IndexError, KeyError, ValueError):
        sys.stderr.write(USAGE)
        return 2
    versions = message_info(cls).versions
    if version not in versions:
        sys.stderr.write(f"{name} has the versions {versions.first}-{versions.last}\n")
        return 2
    sys.stdout.write(f"# {name} v{version}\n\n{generate_decoder(cls, version).text()}\n\n")
    sys.stdout.write(generate_encoder(cls, version).text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
