"""The next step of each kind of finding: a setting to change, and the groupd command that shows the cause."""

import shlex
from typing import Final, NamedTuple

from pipeline.report.lag_troubles import RISING, UNATTENDED
from pipeline.report.troubles import ABANDONED, IDLE, LOST
from pipeline.report.words import shown


class NextStep(NamedTuple):
    """An imperative sentence, and a command line for a running groupd; empty if no command helps."""

    text: str
    command: str = ""


_STEPS: Final = {
    ABANDONED: NextStep("Start a consumer of the group, or delete the group."),
    LOST: NextStep("Raise retention.ms of the topic, or add members."),
    "stuck_partition": NextStep(
        "Look for a record that the owner cannot process; to skip it, stop the group and reset its offset.",
        "groupd explain {group}",
    ),
    UNATTENDED: NextStep("Start a consumer of the group."),
    RISING: NextStep("Add members, up to one for each partition, or make the processing faster."),
    "expiring_offsets": NextStep("Start a consumer of the group, or raise offsets.retention.minutes."),
    "rebalance_storm": NextStep("Find out why these clients leave.", "groupd ledger {group}"),
    "flapping_group": NextStep("Find out why these clients leave.", "groupd ledger {group}"),
    "regular_leaving": NextStep("Raise max.poll.interval.ms of the client, or lower its max.poll.records."),
    "slow_revocation": NextStep("Make the client poll more often: lower its max.poll.records."),
    "offset_rewind": NextStep("Look for a client that seeks back, or for a reset of the offsets."),
    "outside_ownership": NextStep("Look for a consumer that uses this group.id with assign()."),
    "mixed_commits": NextStep("Commit either all offsets with sendOffsetsToTransaction, or none."),
    IDLE: NextStep("Stop some members, or add partitions to the topic."),
}


def find_next_step(kind: str, group: str) -> NextStep:
    """Return the next step of a finding of this kind on a group."""
    step = _STEPS[kind]
    return step._replace(command=step.command.format(group=shlex.quote(shown(group))))
