"""SCRAM: the client proves that it knows the password, and the server that it knows what was made of it.

    client first   n,[a=authorization id],n=user,r=nonce[,name=value…]
    server first   r=nonce and server's nonce,s=salt,i=iterations
    client final   c=biws,r=both nonces,p=proof
    server final   v=signature

As in Kafka a user that does not exist fails at the first step and a wrong password at the second, names are not
prepared (SASLprep), and channels are not bound. An extension is ignored, but `tokenauth=true`: there are no
delegation tokens.

Source: RFC 5802, RFC 7677; Kafka's `ScramSaslServer`, `ScramMessages` and `ScramFormatter`.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from hmac import compare_digest
from hmac import digest as hmac
from typing import Final, NamedTuple

from coordinator.security.credential import ScramCredential, ScramMechanism
from coordinator.security.sasl_server import Authenticated, Challenge, Refused, Step

MAX_TOKEN_BYTES: Final = 8 * 1024
"""A longer token is refused before it is parsed: it comes from a client that has not authenticated."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Of what users are given; Kafka's bound as well."""

HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
# Possessive: no stranger can have a long message matched in many ways.
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]++"
_NONCE: Final = rb"[\x21-\x2b\x2d-\x7e]++"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]++=" + _VALUE + rb")*"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?+"
_CLIENT_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authorization_id>%b))?,(?:m=%b,)?(?P<bare>n=(?P<user>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_NAME, _VALUE, _NAME, _NONCE, _EXTENSIONS)
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<bare>c=%b,r=(?P<nonce>%b))%b,p=(?P<proof>%b)" % (_BASE64, _NONCE, _EXTENSIONS, _BASE64)
)

Credentials = Callable[[str], ScramCredential | None]
"""Takes the name of a user."""


class ClientFirst(NamedTuple):
    """A client's first message. Names are as they are spelled in it, with `=2C` and `=3D`."""

    authorization_id: bytes
    user: bytes
    nonce: bytes
    extensions: bytes
    bare: bytes

    @classmethod
    def parse(cls, token: bytes) -> "ClientFirst | None":
        """None for what is none."""
        match = _CLIENT_FIRST.fullmatch(token)
        if match is None:
            return None
        return cls(*(match[name] or b"" for name in cls._fields))

    @property
    def user_name(self) -> str:
        """The name that is meant."""
        return self.user.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii")

    @property
    def is_by_token(self) -> bool:
        """Whether the user is a delegation token, and the password its HMAC."""
        pairs = (pair.partition(b"=") for pair in self.extensions.split(b","))
        return any(name == b"tokenauth" and value.lower() == b"true" for name, _, value in pairs)


class ScramServer:
    """See the top of this file."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> None:
        """In: what is known of each user, for this mechanism; the server's part of the nonce, in printable ASCII
        without commas, which nobody can foresee."""
        self._hash = HASHES[mechanism]
        self._credentials = credentials
        self._server_nonce = nonce.encode("ascii")
        self._user = ""
        self._nonce = self._client_first = self._server_first = b""
        self._credential: ScramCredential | None = None

    def step(self, token: bytes) -> Step:
        """Judges the first token, or else the final one."""
        if len(token) > MAX_TOKEN_BYTES:
            return Refused(f"the message has more than {MAX_TOKEN_BYTES} bytes")
        return self._first(token) if self._credential is None else self._final(token, self._credential)

    def _first(self, token: bytes) -> Challenge | Refused:
        first = ClientFirst.parse(token)
        if first is None:
            return Refused("the first message is none of SCRAM")
        if first.is_by_token:
            return Refused("there are no delegation tokens")
        self._user = first.user_name
        credential = self._credentials(self._user)
        if credential is None:
            return Refused("the user has no credential of this mechanism")
        if first.authorization_id and first.authorization_id.decode("ascii") != self._user:
            message = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            return Refused(message, message)
        if credential.iterations < MIN_ITERATIONS:
            return Refused(
                f"the credential has {credential.iterations} iterations, less than {MIN_ITERATIONS}"
            )
        self._credential = credential
        self._client_first = first.bare
        self._nonce = first.nonce + self._server_nonce
        self._server_first = b"r=%b,s=%b,i=%d" % (
            self._nonce,
            b64encode(credential.salt),
            credential.iterations,
        )
        return Challenge(self._server_first)

    def _final(self, token: bytes, credential: ScramCredential) -> Authenticated | Refused:
        final = _CLIENT_FINAL.fullmatch(token)
        if final is None:
            return Refused("the final message is none of SCRAM")
        if final["nonce"] != self._nonce:
            return Refused(
                "the final message has another nonce, as that of librdkafka before 2.6.1: Kafka 4 refuses it, too"
            )
        exchanged = b",".join((self._client_first, self._server_first, final["bare"]))
        signature = hmac(credential.stored_key, exchanged, self._hash)
        proof = b64decode(final["proof"])
        if len(proof) != len(signature):
            return Refused("the proof has another length than the hashes of this mechanism")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not compare_digest(new_hash(self._hash, client_key).digest(), credential.stored_key):
            return Refused("the password is wrong")
        signature = hmac(credential.server_key, exchanged, self._hash)
        return Authenticated(self._user, b"v=" + b64encode(signature))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """What a client makes of its password. It takes milliseconds, as it is meant to."""
    return pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a salted password."""
    name = HASHES[mechanism]
    stored_key = new_hash(name, hmac(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored_key, hmac(salted, b"Server Key", name), iterations)
