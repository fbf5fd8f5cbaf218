"""kcat in its balanced consumer mode as a group member.

kcat takes no commands and commits by itself, every 5 s (its -X sets the property of the same name that only
simple consumers heed) and when it leaves: `commit` only answers, the tests then wait for the offsets on the
broker. kcat tells of its assignments on standard error and of records on standard output.
"""

import argparse
import re
import shutil
import subprocess
import sys
import threading
from typing import IO

from tests.interop.clients.conversation import Commands, Partition, emit, pairs, parse_options

HANG_S = 60

_REBALANCED = re.compile(
    r"% Group \S+ rebalanced(?:: incremental (?P<change>assignment|revoke) of \d+ partition\(s\))? "
    r"\(memberid [^)]*\): (?:(?P<whole>assigned|revoked): ?)?(?P<named>.*)$"
)
_PARTITION = re.compile(r"(\S+) \[(\d+)\]")
_RECORD_FORMAT = "%t\\t%p\\t%o\\t%s\\n"


def _command(options: argparse.Namespace) -> list[str]:
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        sys.exit("kcat is not installed")
    settings = {
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": options.assignor,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.heartbeat_ms,
        "max.poll.interval.ms": options.rebalance_timeout_ms,
        "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
        "fetch.wait.max.ms": 100,
        "isolation.level": options.isolation_level,
        "reconnect.backoff.max.ms": 500,
    }
    if options.instance_id:
        settings["group.instance.id"] = options.instance_id
    if options.client_id:
        settings["client.id"] = options.client_id
    # -E: carry on while the broker is away.
    command = [kcat, "-b", options.bootstrap, "-E", "-u", "-f", _RECORD_FORMAT]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    return [*command, "-G", options.group, *([f"^{options.pattern}"] if options.pattern else options.topics)]


def _tell_rebalances(lines: IO[str]) -> None:
    owned: set[Partition] = set()
    for line in lines:
        found = _REBALANCED.match(line.strip())
        if found is None and line.startswith("% Reached end"):
            continue
        if found is None:
            sys.stderr.write(line)
            continue
        named = {(topic, int(number)) for topic, number in _PARTITION.findall(found["named"])}
        if found["change"] == "revoke" or found["whole"] == "revoked":
            owned -= named
            emit("revoked", partitions=pairs(named))
        else:
            owned = owned | named if found["change"] else named
            emit("assigned", partitions=pairs(owned))


def _tell_records(lines: IO[str]) -> None:
    for line in lines:
        topic, partition, offset, value = line.rstrip("\n").split("\t", 3)
        emit("record", topic=topic, partition=int(partition), offset=int(offset), value=value)


def main() -> None:
    """Run kcat until the command `leave`."""
    options = parse_options()
    emit("ready", client="kcat", version="")
    pipe = subprocess.PIPE
    with subprocess.Popen(_command(options), stdout=pipe, stderr=pipe, text=True) as kcat:
        readers = [
            threading.Thread(target=_tell_rebalances, args=(kcat.stderr,), daemon=True),
            threading.Thread(target=_tell_records, args=(kcat.stdout,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        commands = Commands()
        while kcat.poll() is None:
            command = commands.next()
            if command == ["commit"]:
                emit("committed", offsets=[])
            elif command == ["leave"]:
                kcat.terminate()
                kcat.wait(HANG_S)
                break
            else:
                threading.Event().wait(0.02)
        for reader in readers:
            reader.join(HANG_S)
    emit("closed")


if __name__ == "__main__":
    main()
