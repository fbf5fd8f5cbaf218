"""What a broker keeps of a password that a user proves to know with SCRAM: never the password.

Source: Kafka's `ScramCredential` and `ScramMechanism`; RFC 5802.
"""

from dataclasses import dataclass, field
from enum import IntEnum


class ScramMechanism(IntEnum):
    """The mechanisms, with the numbers that requests and records give them."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As SASL calls it: SCRAM-SHA-256."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What proofs of one user and one mechanism are checked against. Its repr shows no byte of it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
