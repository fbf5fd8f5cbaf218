"""The words that every driver speaks with the tests.

Options: see `parse_options`. Commands on standard input, one a line:

- `commit`: commit the position of everything delivered so far; answered with `committed`.
- `subscribe a,b`: replace the subscription.
- `leave`: close the client as its users do; answered with `closed`, then the process ends with 0.
- end of input: the tests are gone; the process ends at once, without a word to the broker.

Commands of `--mode transact`, a producer with `--transactional-id`; each is answered with `done` or `error`:

- `init`, `begin`, `commit`, `abort`: as the methods of the client.
- `produce TOPIC VALUE COUNT`: write the records VALUE-0, VALUE-1, ... and wait until they are acknowledged.
- `offsets TOPIC PARTITION OFFSET`: the group of `--group` has consumed the partition up to there, if the
  transaction is committed. franz-go says so only of what it reads as a member: `--topics` names the topic for it.
- `leave`: as above.

Events on standard output, one JSON object a line, each with `event`:

- `ready`: `client`, `version`; the client library is loaded and about to join.
- `assigned`: `partitions`: everything that this member owns from now on, as [[topic, partition], ...].
- `revoked`, `lost`: `partitions`: what it no longer owns.
- `record`: `topic`, `partition`, `offset`, `value`.
- `committed`: `offsets` as [[topic, partition, offset], ...] where the client tells, else [].
- `produced`: `count` records were acknowledged (producers only).
- `done`: `command`, the first word of what was done (of `--mode transact`).
- `error`: `name`, `message`, `fatal` (a producer's fatal errors: retrying cannot help).
- `closed`: the client was closed cleanly.
"""

import argparse
import json
import os
import queue
import sys
import threading
from collections.abc import Iterable

Partition = tuple[str, int]

_print_lock = threading.Lock()


def parse_options() -> argparse.Namespace:
    """Read the options that the tests give to every driver."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("consume", "produce", "transact"), default="consume")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", default="")
    parser.add_argument("--topics", default="", help="comma separated")
    parser.add_argument("--pattern", default="", help="a regular expression instead of --topics")
    parser.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--assignor", default="range", help="the coordinator's, for the protocol consumer")
    parser.add_argument("--instance-id", default="")
    parser.add_argument("--client-id", default="", help="the client's own where this is empty")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    parser.add_argument("--rebalance-timeout-ms", type=int, default=30000)
    parser.add_argument("--metadata-max-age-ms", type=int, default=60000)
    parser.add_argument(
        "--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_uncommitted"
    )
    parser.add_argument("--topic", default="", help="where a producer writes")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--idempotent", choices=("true", "false"), default="false")
    parser.add_argument("--transactional-id", default="")
    options = parser.parse_args()
    options.topics = [topic for topic in options.topics.split(",") if topic]
    options.idempotent = options.idempotent == "true"
    return options


def emit(event: str, **fields: object) -> None:
    """Print one event as a JSON line, whole even when threads print at once."""
    line = json.dumps({"event": event, **fields})
    with _print_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def pairs(partitions: Iterable[Partition]) -> list[list[object]]:
    """Return (topic, partition) pairs in the form that events carry."""
    return [[topic, partition] for topic, partition in sorted(partitions)]


class Commands:
    """Lines of standard input, read by a thread; the end of the input ends the process at once."""

    def __init__(self) -> None:
        """Start reading."""
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line.strip())
        os._exit(3)

    def wait(self) -> list[str]:
        """Return the next command as words, once there is one."""
        return self._lines.get().split()

    def next(self) -> list[str] | None:
        """Return the next command as words, or None without one."""
        try:
            return self._lines.get_nowait().split()
        except queue.Empty:
            return None
