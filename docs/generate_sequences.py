"""Writes docs/sequences.md: what happens between clients and coordinator, drawn from scenario transcripts.

python -m docs.generate_sequences
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.sequence_diagram import draw

PAGE: Final = Path(__file__).with_name("sequences.md")
_SCENARIOS: Final = Path(__file__).parents[1] / "tests" / "scenarios"

_INTRODUCTION: Final = """# What clients and coordinator say to each other

Generated from transcripts in `tests/scenarios/` by `python -m docs.generate_sequences`; a test fails when it
is stale. The transcripts are held to what the group coordinator does, so the diagrams are too. The states of
a group, and what a member may do in each, are in [state-machine.md](state-machine.md).

A full arrow is a request, a dashed one its answer. A bar on a client's line means that its request is parked:
the coordinator answers it later, where the bar ends, and the client waits. Notes over `groupd` say what
changes there and what it waits for; notes over everybody are the transcript's own words, or say that time
passes. `orders:0,1` are partitions 0 and 1 of the topic `orders`, `orders:0=42` is the committed offset 42 of
partition 0. Member ids are shortened: Kafka's have a UUID where these have a number.

"""


@dataclass(frozen=True)
class Chapter:
    """A diagram with its explanation. `paragraphs` is how many of the transcript are drawn, None for all."""

    title: str
    transcript: str
    text: str
    paragraphs: int | None = None


CHAPTERS: Final = (
    Chapter(
        "The first members of a group",
        "first_group",
        """\
A new member joins in two steps (KIP-394): the first JoinGroup only gets it a member id, so that a client that
never comes back for its answer leaves no member behind. The second one is parked: the coordinator collects
members and answers all of them at once, with a new generation. Because the group was empty, it waits
`group.initial.rebalance.delay.ms` (3 seconds) for more of them, and again while new ones come; a fleet that
starts together then ends in one generation instead of many. SyncGroup is the second phase: everyone asks for
its part, and the answers are parked until the leader has handed in the assignment.

**Why the leader assigns, and not the coordinator.** In the classic protocol subscriptions and assignments are
bytes that only the clients understand, so Kafka Streams, Connect and everybody's own assignor bring their
rules with the application, and a new rule needs no new broker. The first member to join becomes the leader,
is told everybody's subscription and computes for all, at the price of a second round trip in which the others
wait for that one client; KIP-848, the newer protocol, moves the assignment to the broker.

**What the generation is for.** Each rebalance that completes its join phase has a number, one higher than the
last, and heartbeats, SyncGroups and commits carry it. Whoever missed a rebalance still sends the old number
and is refused with ILLEGAL_GENERATION, so it cannot commit for partitions that are another's by now.""",
    ),
    Chapter(
        "A new member makes the group rebalance",
        "new_member_rebalances",
        """\
B's JoinGroup starts a rebalance, but nobody can be told: a coordinator only answers. So A learns of it from
the error of its next heartbeat, which is why `heartbeat.interval.ms` decides how long a rebalance takes to
begin. B waits until A has rejoined, at most for the longest rebalance timeout of the members
(`max.poll.interval.ms` of a Java client). Between the two phases nobody owns anything, and a commit is
refused; with an eager assignor, as here, nobody reads meanwhile either. B speaks JoinGroup v3, as clients
before KIP-394 do, and becomes a member in one step.""",
    ),
    Chapter(
        "A member crashes",
        "session_expiry",
        """\
A process that is killed says nothing more, and its connection may or may not be closed; the coordinator does
not look at connections. It waits `session.timeout.ms` after the member's last request of the group, removes
it, and rebalances. Until then B's partitions are read by nobody: that is the price of telling a crash from a
pause. B's own heartbeat comes too late and is answered with UNKNOWN_MEMBER_ID: had it only been paused, it
would join anew.""",
    ),
    Chapter(
        "A member leaves",
        "member_leaves",
        """\
A consumer that is closed says LeaveGroup, and the rebalance starts at once instead of after a session
timeout. The offsets belong to the group and not to a member, so whoever gets a partition goes on where the
last owner committed. When the last member is gone the group is Empty; its offsets stay for
`offsets.retention.minutes`.""",
    ),
    Chapter(
        "A static member restarts",
        "static_restart_in_stable",
        """\
A member with a `group.instance.id` (KIP-345) does not say LeaveGroup when it stops, and its place is kept for
its session timeout. When a process with the same instance id joins, it takes over place and assignment under
a new member id, and the others notice nothing: no rebalance. The old id is fenced from then on, so that two
processes with one instance id cannot both go on; the older one gets FENCED_INSTANCE_ID. The end of the
transcript, where the leader restarts, is not drawn.""",
        paragraphs=3,
    ),
    Chapter(
        "A cooperative hand-over",
        "cooperative_handover",
        """\
With an eager assignor every member gives up everything before it rejoins, and nobody reads during the
rebalance. With a cooperative one (KIP-429) each says in its JoinGroup what it owns and keeps reading. The
leader never gives a partition to a new owner while the old one says that it owns it: the first rebalance only
takes it away, the old owner stops reading, commits and rejoins, and the second rebalance gives it to the new
owner. So two rebalances in a row are what a healthy cooperative group does. The coordinator knows nothing of
all this: which way it goes is in the bytes that the clients exchange.""",
    ),
    Chapter(
        "Commits during a rebalance",
        "commit_during_rebalance",
        """\
While members are still being collected (PreparingRebalance) the old generation commits as before: those who
are about to give up partitions must be able to say how far they came. Once the new generation has begun and
is not yet assigned (CompletingRebalance), a member of it is told REBALANCE_IN_PROGRESS and may try again.
ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID are final for that commit, for the partition may be another's, who
reads those records again; a Java client throws CommitFailedException. The coordinator does not look at which
partitions a member commits, only at who it is and of which generation.""",
    ),
    Chapter(
        "The coordinator restarts",
        "restart_of_stable_group",
        """\
Assignments and offsets are records of `__consumer_offsets` before any member hears of them, so the
coordinator knows them again when it has read its log (meanwhile it answers COORDINATOR_LOAD_IN_PROGRESS). The
members reconnect and carry on in the same generation; none of them notices more than a pause. Sessions are
not written down: everybody gets a full one. A rebalance that was under way is forgotten, and the members that
joined it ask again (`tests/scenarios/restart_during_rebalance.txt`).""",
        paragraphs=2,
    ),
)


def page() -> str:
    """The page as it should be."""
    return _INTRODUCTION + "\n".join(_section(chapter) for chapter in CHAPTERS)


def diagram(chapter: Chapter) -> list[str]:
    """The lines of a chapter's diagram."""
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
