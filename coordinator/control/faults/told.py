"""What is told of faults that hit: the ledger and the log name them as the cause of what they did."""

from collections.abc import Sequence
from typing import Final

from coordinator.control.acts import Acts
from coordinator.control.faults.asked import Asked
from coordinator.control.faults.fault import Fault
from protocol.apis import APIS, ApiKey

KIND: Final = "fault"
ALL_TOLD: Final = 100
"""Hits of one fault that are told each; of more, every thousandth."""
_OF_MORE: Final = 1000
_AT_ANSWER: Final = ("answer", "before_answer")
_WORDS: Final = {
    "hold": "holds {}",
    "delay": "delays {}",
    "swallow": "swallowed {}",
    "drop": "dropped the connection of {}",
    "throttle_ms": "throttled {}",
    "coordinator": "named another coordinator to {}",
    "crash": "crashed at {}",
    "fail": "failed the disk at {}",
}


class Told:
    """See the top of this file."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts

    def hit(self, fault: Fault, what: str, asked: Asked) -> None:
        """A fault acts on a request or its answer. In: the kind of its action, or the error that is told."""
        who = asked.client_id or next(iter(asked.member_ids), "") or "a client without a name"
        request = f"{APIS[asked.key].name} of {who}"
        of_answer = "the answer to " if fault.action.at == "answer" and what in _WORDS else ""
        words = _WORDS.get(what, what + " to {}").format(of_answer + request)
        groups = fault.matcher.groups(asked)
        self._hit(fault, words, groups[0] if groups else None, asked)

    def hit_event(self, fault: Fault, group_id: str, event: str) -> None:
        """A fault acts on an event."""
        self._hit(fault, f"{fault.action.kind} on {event}", group_id, None)

    def _hit(self, fault: Fault, words: str, group_id: str | None, asked: Asked | None) -> None:
        fault.hits(words, group_id, asked)
        if fault.hit <= ALL_TOLD or fault.hit % _OF_MORE == 0:
            is_sync = asked is not None and asked.key == ApiKey.SYNC_GROUP and fault.action.at in _AT_ANSWER
            generation_id = asked.named_generation if is_sync and asked is not None else None
            self._acts.note(KIND, f"{fault.name} {words}", group_id, fault.by, generation_id)

    def change(self, faults: Sequence[Fault], what: str, by: str | None) -> None:
        """Faults were made, removed or released: no other group's business, where all of them are about one."""
        groups = {fault.group_id for fault in faults}
        self._acts.note(KIND, what, groups.pop() if len(groups) == 1 else None, by)
