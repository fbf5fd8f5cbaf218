"""A connection to a listener with authentication, recorded from its first byte.

A short text names each step:

    versions 3                  ApiVersions v3
    handshake 1 PLAIN           SaslHandshake v1
    plain 2 a good one          SaslAuthenticate v2 with the token of this name in `PLAIN_TOKENS`
    bare a good one             the token alone, with its size
    scram 2 SCRAM-SHA-256       the whole SCRAM exchange in SaslAuthenticate v2, by a user of the session
    bytes negative              malformed frames from `FRAMES`
    heartbeat 4, metadata 12    any other request
"""

from collections.abc import Callable
from typing import Any, Final

from scramp import ScramClient

from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import message_info
from tests.oracle.answer import Plain, plain
from tests.oracle.play import Play
from tests.oracle.secured import PASSWORD, PLAIN_PASSWORDS, SASL
from tests.oracle.wire import Closed, NoAnswer

SILENCE_S: Final = 1.0
"""A broker that is silent for this time waits for more data."""
MOST_BYTES: Final = 524_288
"""What `sasl.server.max.receive.size` is."""
_GOOD: Final = PLAIN_PASSWORDS["peter"]
PLAIN_TOKENS: Final[dict[str, bytes]] = {
    "a good one": f"\0peter\0{_GOOD}".encode(),
    "another's": f"\0paul\0{PLAIN_PASSWORDS['paul']}".encode(),
    "a wrong password": b"\0peter\0wrong",
    "another's password": f"\0peter\0{PLAIN_PASSWORDS['paul']}".encode(),
    "an unknown user": b"\0nobody\0secret",
    "an empty user": b"\0\0secret",
    "an empty password": b"\0peter\0",
    "nothing twice": b"\0\0",
    "its own authorization id": f"peter\0peter\0{_GOOD}".encode(),
    "another's authorization id": f"paul\0peter\0{_GOOD}".encode(),
    "another's authorization id and a wrong password": b"paul\0peter\0wrong",
    "nothing": b"",
    "one part": b"peter",
    "two parts": f"peter\0{_GOOD}".encode(),
    "four parts": f"\0peter\0{_GOOD}\0".encode(),
    "five parts": b"\0\0\0\0",
    "a blank": f"\0peter \0{_GOOD}".encode(),
    "capitals": f"\0Peter\0{_GOOD}".encode(),
    "no UTF-8": b"\0peter\0\xff\xfe",
    "a long password": b"\0peter\0" + b"x" * 100_000,
}
FRAMES: Final[dict[str, bytes]] = {
    "of a negative size": (-1).to_bytes(4, "big", signed=True) + b"abc",
    "of no size": bytes(4),
    "of three bytes": b"\0\0\0\3abc",
    "that are too many": (MOST_BYTES + 1).to_bytes(4, "big") + b"abc",
    "of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "of HTTP": b"GET / HTTP/1.1\r\n\r\n",
}
_OTHERS: Final[dict[str, Callable[[], Any]]] = {
    "metadata": lambda: MetadataRequest(topics=[]),
    "heartbeat": lambda: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
}


class Talk:
    """One connection and its recorded steps, up to its end."""

    def __init__(self, play: Play, listener: str = SASL, by: str = "") -> None:
        self._play = play
        self._by = by
        self._wire = play.raw_wire("talk", listener)
        self._is_quiet = False
        self.is_over = False

    def close(self) -> None:
        """Ends the connection."""
        self._wire.close()

    def say(self, *moves: str) -> "Talk":
        """One after the other, each when the one before is answered."""
        for move in moves:
            if not self.is_over:
                self._say(move)
        return self

    def say_quietly(self, *moves: str) -> "Talk":
        """The same, not recorded: it leads to the situation that the session is about."""
        self._is_quiet = True
        self.say(*moves)
        self._is_quiet = False
        return self

    def _say(self, move: str) -> None:
        kind, _, rest = move.partition(" ")
        if kind == "bare":
            token = PLAIN_TOKENS[rest]
            self.send_bytes(len(token).to_bytes(4, "big") + token, move)
            return
        if kind == "bytes":
            self.send_bytes(FRAMES[rest], move)
            return
        number, _, what = rest.partition(" ")
        version = int(number)
        if kind == "scram":
            self.scram(version, what)
        elif kind == "handshake":
            self.ask(SaslHandshakeRequest(mechanism=what), version, move)
        elif kind == "plain":
            self.ask(SaslAuthenticateRequest(auth_bytes=PLAIN_TOKENS[what]), version, move)
        elif kind == "versions":
            asked = ApiVersionsRequest(client_software_name=what or "a", client_software_version="1")
            self.ask(asked, version, move)
        else:
            self.ask(_OTHERS[kind](), version, move)

    def ask(self, request: Any, version: int, move: str) -> Any:
        """Send a request and record its response; None if the connection was closed instead."""
        try:
            self._wire.send(request, version)
            answer = self._wire.take(SILENCE_S)
        except (Closed, NoAnswer) as end:
            self._end(move, end)
            return None
        self._tell(move, _shown(answer, version, self._play))
        return answer

    def ask_as_if(self, request: Any, version: int, claimed: int, move: str) -> None:
        """Send a request with the number of another version; record the bytes of the response."""
        key = message_info(type(request)).api_key
        frame = bytearray(encode_request(key, version, 1, "talk", request))
        frame[6:8] = claimed.to_bytes(2, "big", signed=True)
        self.send_bytes(bytes(frame), move)

    def send_bytes(self, data: bytes, move: str) -> None:
        """Send raw bytes and record the bytes of the response."""
        try:
            self._wire.send_bytes(data)
            answer = self._wire.take_frame(SILENCE_S)
        except (Closed, NoAnswer) as end:
            self._end(move, end)
        else:
            self._tell(move, answer.hex())

    def send_token(self, token: bytes, note: str, version: int = 2) -> Any:
        """Send a token in SaslAuthenticate and record the response."""
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version, note)

    def scram(self, version: int, mechanism: str, user: str = "", password: str = PASSWORD) -> None:
        """Authenticate by SCRAM as far as the broker allows; random parts are not recorded."""
        client = ScramClient([mechanism], user or self._play.name("alice"), password)
        answer = self.send_token(client.get_client_first().encode(), f"scram {version}, first", version)
        if answer is None or answer.error_code:
            return
        client.set_server_first(answer.auth_bytes.decode())
        answer = self.send_token(client.get_client_final().encode(), f"scram {version}, final", version)
        if answer is not None and not answer.error_code:
            client.set_server_final(answer.auth_bytes.decode())

    def stays_open(self, note: str = "at last") -> None:
        """Tells whether the connection still is there."""
        if not self.is_over:
            try:
                self._wire.take_frame(SILENCE_S)
            except (Closed, NoAnswer) as end:
                self._end(note, end)

    def _end(self, move: str, end: Closed | NoAnswer) -> None:
        self.is_over = isinstance(end, Closed)
        self._tell(move, "closed" if self.is_over else "nothing")

    def _tell(self, move: str, told: Plain) -> None:
        if not self._is_quiet:
            self._play.tell(f"{self._by}: {move}" if self._by else move, told)


def _shown(answer: Any, version: int, play: Play) -> Plain:
    if type(answer).__name__ == "ApiVersionsResponse":
        return {"error_code": plain(answer.error_code, version, play.names, "error_code")}
    fields = plain(answer, version, play.names)
    if isinstance(fields, dict) and isinstance(token := fields.get("auth_bytes"), str):
        fields["auth_bytes"] = _without_chance(token)
    return fields


def _without_chance(token: str) -> str:
    """Return the salt and the iterations of a server's SCRAM message, without nonce and signature."""
    parts = token.split(",")
    return ",".join(f"{part[:2]}(random)" if part[:2] in ("r=", "v=") else part for part in parts)
