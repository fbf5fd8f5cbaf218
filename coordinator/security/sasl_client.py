"""PLAIN and SCRAM as a client has them: for commands that ask a broker which wants to know who asks.

An exchange is a generator. It yields tokens for the server, is sent what the server says to each, and ends when
there is nothing more to say; it raises ValueError where the server does not prove that it knows the user.

Source: RFC 4616, RFC 5802, RFC 7677; Kafka's `PlainSaslServer` and `ScramSaslClient`.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Generator
from hashlib import new as new_hash
from hmac import compare_digest
from hmac import digest as hmac
from typing import Final

from coordinator.security.credential import ScramMechanism
from coordinator.security.scram import HASHES, salted_password

_SERVER_FIRST: Final = re.compile(rb"r=([^,]+),s=([a-zA-Z0-9/+=]+),i=([0-9]{1,7})(?:,.*)?")
_HEADER: Final = b"n,,"

Exchange = Generator[bytes, bytes, None]


def plain_exchange(user: str, password: str) -> Exchange:
    """One token says it all."""
    yield f"\0{user}\0{password}".encode()


def scram_exchange(mechanism: ScramMechanism, user: str, password: str, nonce: str) -> Exchange:
    """In: the client's part of the nonce, in printable ASCII without commas, which nobody can foresee."""
    hash_name = HASHES[mechanism]
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    server_first = yield _HEADER + first
    match = _SERVER_FIRST.fullmatch(server_first)
    if match is None or not match[1].startswith(nonce.encode()):
        raise ValueError("what the server says first is none of SCRAM")
    salted = salted_password(mechanism, password, b64decode(match[2]), int(match[3]))
    final = b"c=%b,r=%b" % (b64encode(_HEADER), match[1])
    exchanged = b",".join((first, server_first, final))
    client_key = hmac(salted, b"Client Key", hash_name)
    signature = hmac(new_hash(hash_name, client_key).digest(), exchanged, hash_name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = yield b"%b,p=%b" % (final, b64encode(proof))
    signature = hmac(hmac(salted, b"Server Key", hash_name), exchanged, hash_name)
    if not compare_digest(server_final, b"v=" + b64encode(signature)):
        raise ValueError("the server does not prove that it knows the user")
