"""`groupd wire`: prints bytes of Kafka's protocol field by field, for debugging a client. Reads the bytes
from --hex, a file or standard input. The subcommands use the reference codec (construct), which the daemon
never imports.
"""

import sys
from typing import Final

import click

from coordinator.cli.click_extensions import Subcommand, Subcommands
from storage.files import read_input_file
from storage.storage_errors import format_error_reason

SUBCOMMANDS: Final = {
    "decode": Subcommand("cli.wire.decode_commands:decode_message", "Print a message, field by field."),
    "dump": Subcommand("cli.wire.decode_commands:dump_frames", "Print recorded frames, field by field."),
    "record": Subcommand(
        "cli.wire.decode_commands:print_records", "Print records of __consumer_offsets, field by field."
    ),
}


@click.group(cls=Subcommands, subcommands=SUBCOMMANDS)
def wire() -> None:
    """Print bytes of the protocol field by field: the position, the length and the value of each field.

    For invalid bytes the command prints the fields up to them and the reason, and exits with 1.
    """


def parse_hex(text: str) -> bytes:
    """Parse hexadecimal digits without white space, colons and a leading 0x. Raises BadParameter."""
    digits = "".join(text.replace(":", " ").split()).removeprefix("0x")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise click.BadParameter(f"not hexadecimal digits: {error}") from error


def read_input(path: str | None, hex_text: str | None) -> bytes:
    """Return the bytes of --hex, or of a file ("-" is standard input). Raises UsageError unless exactly one of
    them is given, and for an unreadable file."""
    if (path is None) == (hex_text is None):
        raise click.UsageError("either FILE or --hex is required")
    if hex_text is not None:
        return parse_hex(hex_text)
    assert path is not None
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return read_input_file(path)
    except OSError as error:
        raise click.UsageError(format_error_reason(error)) from error
