"""Where the bytes come from that are to be looked at: hexadecimal text, a file, or standard input."""

import sys

import click

from storage.files import read_input
from storage.os_error import reason_of


def from_hex(text: str) -> bytes:
    """Bytes from hexadecimal digits; white space, colons and a leading 0x are passed over. Raises BadParameter."""
    digits = "".join(text.replace(":", " ").split()).removeprefix("0x")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise click.BadParameter(f"these are no hexadecimal digits: {error}") from error


def given(path: str | None, hex_text: str | None) -> bytes:
    """The bytes of --hex, or of a file ("-" is standard input). Raises UsageError for none and for both, and for a
    file that cannot be read."""
    if (path is None) == (hex_text is None):
        raise click.UsageError("give either FILE or --hex")
    if hex_text is not None:
        return from_hex(hex_text)
    assert path is not None
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return read_input(path)
    except OSError as error:
        raise click.UsageError(reason_of(error)) from error
