"""Who a member is, as people are told."""

from typing import NamedTuple


class MemberName(NamedTuple):
    """A member, or who has been given an id to become one. `client_host` has Java's leading slash
    ("/127.0.0.1"); `group_instance_id` is None unless the member is static."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
