"""Generate docs/sequences.md, diagrams of messages between clients and coordinator, from scenario transcripts.

python -m docs.generate_sequences
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.sequence_diagram import draw

PAGE: Final = Path(__file__).with_name("sequences.md")
_SCENARIOS: Final = Path(__file__).parents[1] / "tests" / "scenarios"

_INTRODUCTION: Final = """# Message sequences between clients and coordinator

This page shows the messages of a classic group in eight situations. It is generated from transcripts in
`tests/scenarios/` by `python -m docs.generate_sequences`, and a test fails if it is stale. Other tests compare
the transcripts with the group coordinator, so the diagrams show its behaviour.
[state-machine.md](state-machine.md) has the states of a group and the response to each request.

| in a diagram | meaning |
|---|---|
| full arrow | a request |
| dashed arrow | its response |
| bar on the line of a client | the client waits, because the coordinator responds later |
| note over `groupd` | a change in the coordinator, or a wait |
| note over all participants | a comment of the transcript, or the time that passes |
| `orders:0,1` | partitions 0 and 1 of the topic `orders` |
| `orders:0=42` | committed offset 42 of partition 0 |

Member ids are shortened: Kafka's ids have a UUID in place of the number.

"""


@dataclass(frozen=True)
class Chapter:
    """A diagram with its explanation. It shows the first `paragraphs` of the transcript; None: all."""

    title: str
    transcript: str
    text: str
    paragraphs: int | None = None


CHAPTERS: Final = (
    Chapter(
        "The first members of a group",
        "first_group",
        """\
A new member joins in two steps (KIP-394). The first JoinGroup only returns a member id, so that a client that
never continues leaves no member behind. The coordinator holds the second JoinGroup: it collects members and
responds to all of them at once, with a new generation. An empty group waits `group.initial.rebalance.delay.ms`
(3 seconds) for more members, and again while new ones join. A fleet that starts together therefore ends in one
generation instead of many. SyncGroup is the second phase: every member requests its assignment, and the
coordinator holds these requests until the leader has sent the assignment.

**Why does the leader compute the assignment?** In the classic protocol only the clients understand the bytes of
subscriptions and assignments. Kafka Streams, Connect and custom assignors bring their rules with the
application, and a new rule needs no new broker. The first member becomes the leader, gets all subscriptions and
computes the assignment for all members. The price is a second round trip, in which the other members wait for
this client. The newer protocol, KIP-848, moves the assignment to the broker.

**What is the generation for?** Each rebalance that completes its join phase increments the generation, and
heartbeats, SyncGroups and commits contain it. A member that missed a rebalance still sends the old generation
and gets ILLEGAL_GENERATION. It therefore cannot commit for partitions that may have a new owner.""",
    ),
    Chapter(
        "A new member makes the group rebalance",
        "new_member_rebalances",
        """\
B's JoinGroup starts a rebalance. A coordinator only responds to requests, so A learns of the rebalance from the
error of its next heartbeat. `heartbeat.interval.ms` therefore determines the time until a rebalance begins. B
waits until A has rejoined, at most for the longest rebalance timeout of the members (`max.poll.interval.ms` of
a Java client). Between the two phases no member owns partitions, and the coordinator refuses commits. With an
eager assignor, as here, no member reads in this time. B uses JoinGroup v3, as clients before KIP-394 do, and
becomes a member in one step.""",
    ),
    Chapter(
        "A member crashes",
        "session_expiry",
        """\
A killed process sends no LeaveGroup, and its connection may stay open; the coordinator ignores connections. It
waits `session.timeout.ms` after the member's last group request, removes the member, and rebalances. Until then
no member reads B's partitions: this delay distinguishes a crash from a pause. B's own heartbeat arrives too
late and gets UNKNOWN_MEMBER_ID. If B was only paused, it now joins again.""",
    ),
    Chapter(
        "A member leaves",
        "member_leaves",
        """\
A closing consumer sends LeaveGroup, and the rebalance starts at once instead of after a session timeout.
Offsets belong to the group and not to a member, so the new owner of a partition continues at the last committed
offset. When the last member has left, the group is Empty. Its offsets stay for `offsets.retention.minutes`.""",
    ),
    Chapter(
        "A static member restarts",
        "static_restart_in_stable",
        """\
A member with a `group.instance.id` (KIP-345) sends no LeaveGroup when it stops, and the coordinator keeps its
place for the session timeout. When a process with the same instance id joins, it takes over place and
assignment under a new member id, without a rebalance. The coordinator then fences the old member id, so that
two processes with one instance id cannot both continue; the older one gets FENCED_INSTANCE_ID. The diagram
omits the end of the transcript, where the leader restarts.""",
        paragraphs=3,
    ),
    Chapter(
        "A cooperative hand-over",
        "cooperative_handover",
        """\
With an eager assignor every member gives up all partitions before it rejoins, and no member reads during the
rebalance. With a cooperative assignor (KIP-429) each member lists its partitions in JoinGroup and continues to
read them. The leader never assigns a partition to a new owner while the old owner lists it. The first rebalance
only revokes it: the old owner stops reading, commits and rejoins. The second rebalance assigns it to the new
owner. Two rebalances in a row are therefore normal for a cooperative group. The coordinator does not know which
assignor is used; the clients exchange this in their subscriptions.""",
    ),
    Chapter(
        "Commits during a rebalance",
        "commit_during_rebalance",
        """\
While the coordinator collects members (PreparingRebalance), members of the old generation can commit, because
they must record their progress before they give up partitions. When the new generation has begun without an
assignment (CompletingRebalance), a commit gets REBALANCE_IN_PROGRESS, and the member may retry.
ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID are final for a commit: the partition may have a new owner, which reads
the records again. A Java client throws CommitFailedException. The coordinator checks the member id and the
generation of a commit, but not the partitions.""",
    ),
    Chapter(
        "The coordinator restarts",
        "restart_of_stable_group",
        """\
The coordinator writes assignments and offsets to `__consumer_offsets` before it responds to members. After a
restart it reads them from its log, and answers COORDINATOR_LOAD_IN_PROGRESS until it has finished. The members
reconnect and continue in the same generation after a short pause. The log does not contain sessions: each
member gets a new, full session. An interrupted rebalance is lost, and its members send JoinGroup again
(`tests/scenarios/restart_during_rebalance.txt`).""",
        paragraphs=2,
    ),
)


def page() -> str:
    """Return the text of the page."""
    return _INTRODUCTION + "\n".join(_section(chapter) for chapter in CHAPTERS)


def diagram(chapter: Chapter) -> list[str]:
    """Return the lines of a chapter's diagram."""
    transcript = _SCENARIOS / f"{chapter.transcript}.txt"
    return draw(transcript.read_text(encoding="utf-8").splitlines(), chapter.paragraphs)


def _section(chapter: Chapter) -> str:
    drawn_from = f"Drawn from `tests/scenarios/{chapter.transcript}.txt`."
    parts = [
        f"## {chapter.title}",
        chapter.text,
        drawn_from,
        "\n".join(["```mermaid", *diagram(chapter), "```"]),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
