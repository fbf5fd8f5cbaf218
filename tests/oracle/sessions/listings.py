"""ListGroups with its filters, DescribeGroups of several."""

from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.oracle.member import Member, commit_request, gather, stable
from tests.oracle.play import Play
from tests.oracle.session import session

STATES = (
    "Stable", "stable", " Empty ", "empty", "STABLE", "bogus", "Dead", "", "CompletingRebalance",
    "PreparingRebalance", "assigning",
)  # fmt: skip
TYPES = ("classic", "Classic", "CONSUMER", "bogus", "", "unknown", " classic")


def groups_of_every_kind(play: Play) -> list[str]:
    """One group in each state, one with offsets only, one with a promised member, one of another type."""
    orders = play.topic()
    names = [
        play.name(name) for name in ("stable", "preparing", "completing", "offsets", "promised", "connect")
    ]
    with play.quietly():
        a, b = Member(play, "a", group=names[0]), Member(play, "b", group=names[0])
        stable(a, b)
        c, d = Member(play, "c", group=names[1]), Member(play, "d", group=names[1])
        stable(c, d)
        d.begin_join(protocols=["range:other"])
        e, f = Member(play, "e", group=names[2]), Member(play, "f", group=names[2])
        stable(e, f)
        gather(e, f)
        play.ask(commit_request(names[3], {(orders, 0): 1}), 9)
        Member(play, "p", group=names[4]).join()
        k = Member(play, "k", group=names[5], protocol_type="connect")
        k.enter()
        k.sync()
    return names


@session(version=range(6))
def groups_are_listed(play: Play, version: int) -> None:
    groups_of_every_kind(play)
    play.ask(ListGroupsRequest(), version, own=True)
    if version >= 4:
        for state in STATES:
            play.ask(ListGroupsRequest(states_filter=[state]), version, note=f"state '{state}'", own=True)
        several = ListGroupsRequest(states_filter=["Stable", "empty"])
        play.ask(several, version, note="two states", own=True)
    if version >= 5:
        for kind in TYPES:
            play.ask(ListGroupsRequest(types_filter=[kind]), version, note=f"type '{kind}'", own=True)
        both = ListGroupsRequest(states_filter=["Empty"], types_filter=["classic", "share"])
        play.ask(both, version, note="state and types", own=True)


@session(version=range(7))
def groups_are_described(play: Play, version: int) -> None:
    names = groups_of_every_kind(play)
    for name in names:
        play.ask(DescribeGroupsRequest(groups=[name]), version, note=name.replace(play.suffix, ""))
    unknown = play.name("unknown")
    play.ask(DescribeGroupsRequest(groups=[unknown, "", unknown]), version, note="unknown ones")
    play.ask(DescribeGroupsRequest(groups=[]), version, note="none")
    play.ask(DescribeGroupsRequest(groups=[*names, unknown, names[0]]), version, note="all at once")
    if version >= 3:
        request = DescribeGroupsRequest(groups=[names[0], unknown], include_authorized_operations=True)
        play.ask(request, version, note="with operations")
