"""The generated codec: straight-line Python for one version of one message, made on first use.

`python -m protocol.codegen JoinGroupRequest 9` prints what the daemon runs. Nothing generated is kept in the
repository; the declaration in `protocol/messages` is the source.
"""

import struct
import sys
from collections.abc import Callable
from typing import Any

from protocol.decode_source import DecoderSource
from protocol.encode_source import EncoderSource
from protocol.schema import message_info
from protocol.source import Source


def decoder_source(cls: type[Any], version: int, whole: bool = True) -> Source:
    """The source of `decode(data, p=0) -> message`, and the names that it needs; `whole`: the message must
    reach to the end of the data."""
    source = Source()
    source.namespace["struct_error"] = struct.error
    DecoderSource(source, cls, version, version in message_info(cls).flexible, whole)
    return source


def encoder_source(cls: type[Any], version: int) -> Source:
    """The source of `write(message, out: bytearray)`, and the names that it needs."""
    source = Source()
    EncoderSource(source, cls, version, version in message_info(cls).flexible)
    return source


def function(source: Source, name: str, origin: str) -> Callable[..., Any]:
    """Execute `source` and return its function `name`; tracebacks call the text <origin>."""
    exec(compile(source.text(), f"<{origin}>", "exec"), source.namespace)
    made: Callable[..., Any] = source.namespace[name]
    return made


def main(arguments: list[str]) -> int:
    """Print both functions of a message version."""
    from protocol.apis import message_class

    name, version = arguments
    cls = message_class(name)
    sys.stdout.write(f"# {name} v{version}\n\n{decoder_source(cls, int(version)).text()}\n\n")
    sys.stdout.write(encoder_source(cls, int(version)).text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
