"""The other end of a connection, and how text from there is printed."""

from typing import Final

from coordinator.printable_text import escape_unprintable

MAX_PRINTED: Final = 200


def peer_address(peername: object) -> str:
    """The numeric host of a socket's peer; an IPv4 address that came over IPv6 as plain IPv4."""
    if isinstance(peername, tuple) and peername:
        return str(peername[0]).removeprefix("::ffff:")
    return ""


def peer_name(peername: object) -> str:
    """Host and port for a log line."""
    if isinstance(peername, tuple) and len(peername) >= 2:
        host = peer_address(peername)
        return f"[{host}]:{peername[1]}" if ":" in host else f"{host}:{peername[1]}"
    return "an unknown peer"


def printable(text: str, most: int = MAX_PRINTED) -> str:
    """Text from a client on one line of a log: what could end the line, or steer a terminal, is escaped.

    Of a text of more than `most` characters the rest is left out.
    """
    if len(text) > most:
        text = text[:most] + "…"
    return escape_unprintable(text)
