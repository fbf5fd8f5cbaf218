"""One Java virtual machine that runs Kafka's command-line tools, one after the other.

A start of Java costs seconds and a warm command a tenth of one, so all the tests share a machine. Each tool runs by
its `main` method, as its shell script runs it, with streams and an exit status of its own; the protocol is that of
`tests/kafka_log/java/tools/Commands.java`.
"""

import struct
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from tests.kafka_log.artifacts import tools

TIMEOUT_S: Final = 60
START_TIMEOUT_S: Final = 300
CLASSES: Final[Mapping[str, str]] = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
"""The names of the shell scripts without `.sh`, and their classes."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


class Machine:
    """The virtual machine."""

    def __init__(self) -> None:
        """Starts it and waits until it runs commands. Raises CannotBuild where Java or the tools cannot be had."""
        self._process = subprocess.Popen(
            [*tools(), "Commands"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            self.run("kafka-topics", "--version", timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def is_alive(self) -> bool:
        """Whether it can run another command."""
        return self._process.poll() is None

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Done:
        """Run a command to its end; AssertionError when it takes longer, which ends the machine."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        words = [word.encode() for word in (CLASSES[tool], *arguments)]
        request = b"".join(struct.pack(">H", len(word)) + word for word in words)
        typed = stdin.encode()
        impatience = threading.Timer(timeout_s, self._process.kill)
        impatience.start()
        try:
            asked.write(struct.pack(">i", len(words)) + request + struct.pack(">i", len(typed)) + typed)
            asked.flush()
            (status,) = struct.unpack(">i", _read(answered, 4))
            out, err = (_read(answered, struct.unpack(">i", _read(answered, 4))[0]) for _ in range(2))
        except (EOFError, BrokenPipeError) as ended:
            raise AssertionError(f"{tool} {' '.join(arguments)} did not end in {timeout_s} s") from ended
        except BaseException:
            self._process.kill()  # late output of this command must not mix with the next one
            raise
        finally:
            impatience.cancel()
        return Done(status, out.decode(errors="replace"), err.decode(errors="replace"))

    def run_alone(self, tool: str, *arguments: str) -> Done:
        """Run a command in a virtual machine of its own: one that does its last work when that ends."""
        done = subprocess.run(
            [*tools(), CLASSES[tool], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def _read(stream: IO[bytes], count: int) -> bytes:
    read = stream.read(count)
    if len(read) < count:
        raise EOFError
    return read
