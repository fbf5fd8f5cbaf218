"""A request of the consumer protocol is refused: raised where that is found out, answered where the request came
in.

Until then nothing is written or changed, so that nothing has to be taken back. Texts are Kafka's, which clients
print.
"""

from protocol.errors import ErrorCode
from protocol.primitives import MAX_STRING_BYTES


class Refusal(Exception):
    """The error, and what there is to say beside it (None: nothing)."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = None if message is None else fitting(message)


def fitting(message: str) -> str:
    """A message without what is too much for the field of an answer: names in it may be as long as that by
    themselves. Kafka hangs up."""
    text = message.encode(errors="surrogatepass")
    if len(text) <= MAX_STRING_BYTES:
        return message
    return text[:MAX_STRING_BYTES].decode(errors="ignore")


def unknown_member(group_id: str, member_id: str) -> Refusal:
    """Nobody has that id."""
    message = f"Member {member_id} is not a member of group {group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
