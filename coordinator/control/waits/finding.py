"""Something about a group that is worth a sentence."""

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True):
    """`kind` is a word for programs; `sentence` says it and names whose doing it is; `hint` says what can be done.
    `members` are member ids. `blocks`: it keeps the group, or a part of it, from working, and is no mere oddity."""

    kind: str
    sentence: str
    blocks: bool
    members: list[str] = []
    topics: list[str] = []
    hint: str | None = None
