"""Plays the sessions against a real broker and against groupd, and says where the answers differ.

python -m tests.oracle [--kafka VERSION] [--record] [PATTERN ...]

Exit status 1 when an answer differs that tests/oracle/explained.py does not explain.
"""

import argparse
import contextlib
import datetime
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase

from tests.kafka_log.artifacts import NEWEST
from tests.oracle import recordings
from tests.oracle.compare import compare
from tests.oracle.explained import explanation
from tests.oracle.peers import groupd, kafka, play_all
from tests.oracle.play import Account, Peer
from tests.oracle.session import Session, library

DIFFERS, FAILED = "differ", "failed"


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make oracle", description=__doc__)
    parser.add_argument("--kafka", default=NEWEST, metavar="VERSION", help="the broker to compare with")
    parser.add_argument(
        "--record", action="store_true", help="keep the broker's answers for later comparisons"
    )
    parser.add_argument("--verbose", action="store_true", help="print every answer of the broker")
    parser.add_argument("pattern", nargs="*", help="sessions or subjects (default: all)")
    options = parser.parse_args()
    sessions = [each for each in library() if not options.pattern or _wanted(each, options.pattern)]
    subjects = {each.subject for each in sessions}
    if options.record and sessions != [each for each in library() if each.subject in subjects]:
        parser.error("only whole subjects are recorded")
    print(f"{len(sessions)} sessions against Apache Kafka {options.kafka}", flush=True)
    with tempfile.TemporaryDirectory(prefix="oracle-") as directory:
        kafka_results = _play(sessions, lambda setup: kafka(directory, setup, options.kafka))
        groupd_results = _play(sessions, lambda setup: groupd(directory, setup))
    if options.verbose:
        for account in kafka_results.values():
            print(
                f"= {account.session.name} took {account.duration_s:.1f} s",
                *(f"{a} -> {b}" for a, b in account.entries),
                sep="\n",
            )
    failures = _report(kafka_results, groupd_results, options.kafka)
    if options.record and not failures:
        _record(options.kafka, kafka_results, subjects)
    return 1 if failures else 0


def _wanted(session: Session, patterns: list[str]) -> bool:
    return any(
        pattern == session.subject or fnmatchcase(session.name, pattern.replace("[", "[[]"))
        for pattern in patterns
    )


def _play(
    sessions: list[Session], broker: Callable[[str], contextlib.AbstractContextManager[Peer]]
) -> dict[str, Account]:
    with contextlib.ExitStack() as stack:
        peers = {setup: stack.enter_context(broker(setup)) for setup in {each.setup for each in sessions}}
        return play_all(sessions, peers)


def _report(theirs: dict[str, Account], ours: dict[str, Account], version: str) -> int:
    """Print the differences; return the number of failed sessions."""
    recorded = recordings.read_version(NEWEST) if version != NEWEST else {}
    tally: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for name, account in theirs.items():
        tally[_judge(account, ours[name], recorded.get(name), version, reasons)] += 1
    print("\n".join(f"{count:6} {what}" for what, count in sorted(reasons.items())))
    print(
        f"{len(theirs)} sessions, {sum(len(account.entries) for account in theirs.values())} answers: ",
        end="",
    )
    print(", ".join(f"{count} {what}" for what, count in tally.most_common()))
    return tally[DIFFERS] + tally[FAILED]


def _judge(
    account: Account, mine: Account, newer: recordings.Recorded | None, version: str, reasons: Counter[str]
) -> str:
    """Return the verdict category of a session and print its differences.

    `newer` holds the responses of the newest Kafka when `version` is older.
    """
    name = account.session.name
    if mine.problem or mine.unplayed:
        print(f"{name}: groupd\n{mine.problem or mine.unplayed}")
        return FAILED
    if account.unplayed:
        reasons[f"not in Kafka {version}: {account.unplayed}"] += 1
        return "not answered by this Kafka"
    differences = compare(name, account.entries, mine.entries)
    unexplained = [each for each in differences if explanation(each) is None]
    if (account.problem or unexplained) and newer is not None and _as_newer(mine, newer):
        reasons[f"changed in Kafka since: {account.session.subject}"] += 1
        return f"changed since; groupd answers as {NEWEST}"
    if account.problem:
        print(f"{name}: Kafka\n{account.problem}")
        return FAILED
    if unexplained:
        print(*unexplained, sep="\n")
        return DIFFERS
    for known in filter(None, map(explanation, differences)):
        reasons[f"explained: {known.why}"] += 1
    return "agree but for what is explained" if differences else "agree"


def _as_newer(mine: Account, newer: recordings.Recorded) -> bool:
    left = compare(mine.session.name, newer.entries, mine.entries)
    return all(explanation(difference) is not None for difference in left)


def _record(version: str, accounts: dict[str, Account], subjects: set[str]) -> None:
    played = [account for account in accounts.values() if not account.unplayed and not account.problem]
    if version != NEWEST:
        newest = recordings.read_version(NEWEST)
        played = [account for account in played if _adds_to(newest, account)]
    recordings.write(version, datetime.datetime.now(datetime.UTC).date().isoformat(), played, subjects)
    print(f"recorded {len(played)} sessions of Apache Kafka {version}")


def _adds_to(newest: dict[str, recordings.Recorded], account: Account) -> bool:
    """Whether the newest Kafka does not answer the session, or in another way."""
    name = account.session.name
    return name not in newest or bool(compare(name, newest[name].entries, account.entries))


if __name__ == "__main__":
    sys.exit(main())
