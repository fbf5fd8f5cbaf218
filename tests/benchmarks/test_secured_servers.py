"""What `make bench` measures behind TLS, SASL and ACLs is let in and allowed."""

from contextlib import ExitStack

from benchmarks.commit import commit_frames
from benchmarks.groups import group_names
from benchmarks.secured_servers import ACLS, LISTENERS, acls, new_certificate, secured_groupd


async def test_every_listener_takes_joins_and_commits() -> None:
    groups = group_names(len(LISTENERS))
    with ExitStack() as stack:
        listening = await secured_groupd(stack, new_certificate(stack), groups)
        for listener, group in zip(LISTENERS, groups, strict=True):
            assert len(await commit_frames(listening[listener], [group])) == 1


def test_there_are_as_many_acls_as_is_said() -> None:
    assert len({repr(acl) for acl in acls(group_names(50))}) == ACLS
