"""A recording without what it says of machines and applications: hosts, and what clients put into their
subscriptions for themselves.

Each gets another name, the same one wherever it stands, so that the recording plays as it did. Of a subscription or
an assignment of the consumer protocol only the user data is replaced; of any other protocol all of it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import json

from coordinator.control.recording.forms import Forms, Json, Writer
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.malformed import Malformed

_HOSTS: Final = frozenset({"client_host", "sender_host", "host"})
_SUBSCRIPTIONS: Final = frozenset(
    {"metadata", "subscription", "member_metadata", "protocols", "supported_protocols"}
)
_ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment", "before", "settled_assignment"})
"""Fields with what members send for each other."""
_NOT_OURS: Final = b"\xff\xff"
"""No version of the consumer protocol: what begins so is none of it, before as after."""


def scrubbed(texts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a recording, scrubbed. In: its lines, of which it is known that they are a recording."""
    scrub = _Scrub()
    lines = [json.decode(text) for text in texts]
    for line in lines:
        scrub.learn(line, "")
    for line in lines:
        yield json.encode(scrub.form(line, "")) + b"\n"


class _Scrub:
    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._bytes: dict[str, str] = {}

    def learn(self, form: Json, field: str) -> None:
        """Finds what is to be replaced in a form that stands in a field."""
        if isinstance(form, dict):
            for name, inner in form.items():
                self.learn(inner, field if name.startswith("$") else name)
        elif isinstance(form, list):
            for inner in form:
                self.learn(inner, field)
        elif not isinstance(form, str) or not form:
            return
        elif field in _HOSTS:
            self._hosts.setdefault(form, f"{'/' * form.startswith('/')}host-{len(self._hosts) + 1}")
        elif form.startswith("$b:") and form not in self._bytes:
            is_subscription = field in _SUBSCRIPTIONS
            if is_subscription or field in _ASSIGNMENTS:
                number = len(self._bytes) + 1
                other = _without_user_data(
                    Forms().value(form), is_subscription=is_subscription, number=number
                )
                self._bytes[form] = Writer().form(other)

    def form(self, form: Json, field: str) -> Json:
        """The form, scrubbed."""
        if isinstance(form, dict):
            return {
                name: self.form(one, field if name.startswith("$") else name) for name, one in form.items()
            }
        if isinstance(form, list):
            return [self.form(one, field) for one in form]
        if isinstance(form, str):
            if field == "raised":
                return "an error"
            return self._hosts.get(form, form) if field in _HOSTS else self._bytes.get(form, form)
        return form


def _without_user_data(data: bytes, *, is_subscription: bool, number: int) -> bytes:
    """As long as before, and other bytes where others were."""
    try:
        start, size = _user_data(data, is_subscription=is_subscription)
    except Malformed:
        return (_NOT_OURS + number.to_bytes(4)).ljust(len(data), b"\0")[: len(data)]
    return data[:start] + number.to_bytes(4).ljust(size, b"\0")[:size] + data[start + size :]


def _user_data(data: bytes, *, is_subscription: bool) -> tuple[int, int]:
    """Where it begins, and how long it is. Raises Malformed."""
    if is_subscription:
        subscription = decode_subscription(data)
        front = encode_subscription(ConsumerProtocolSubscription(topics=subscription.topics), 0)
        return len(front), len(subscription.user_data or b"")
    assignment = decode_assignment(data)
    partitions = assignment.assigned_partitions
    front = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=partitions), 0)
    return len(front), len(assignment.user_data or b"")
