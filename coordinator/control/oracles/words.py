"""Members in sentences."""

from coordinator.group.member_name import MemberName
from coordinator.server.log_words import member, member_at, printable_name


def who(name: MemberName) -> str:
    """`alice-1c2d3e4f`."""
    return member(printable_name(name))


def who_at(name: MemberName) -> str:
    """`alice-1c2d3e4f at 127.0.0.1`."""
    return member_at(printable_name(name))
