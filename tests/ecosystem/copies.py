"""Lines of a file that two workers of Kafka Connect bring into another file, by a topic."""

from pathlib import Path
from typing import Final

from tests.ecosystem.conftest import Start
from tests.ecosystem.worker import two_workers
from tests.interop.broker import Broker, eventually

LINES: Final = 500
TOPIC: Final = "copied-lines"
_PLAIN: Final = "org.apache.kafka.connect.file.FileStream"


class Copies:
    """Two connectors, three tasks."""

    def __init__(self, broker: Broker, start: Start, directory: Path, **more_properties: str) -> None:
        """Start the workers, with further properties (underscores for dots), and create the connectors."""
        self._source, self._sink = directory / "source.txt", directory / "sink.txt"
        self._written: list[str] = []
        self._write()
        self.workers = two_workers(start, broker, directory, **more_properties)
        broker.create_topic(TOPIC, 2)
        self.connectors = {
            "source": {
                "connector.class": f"{_PLAIN}SourceConnector",
                "file": str(self._source),
                "topic": TOPIC,
            },
            "sink": {
                "connector.class": f"{_PLAIN}SinkConnector",
                "file": str(self._sink),
                "topics": TOPIC,
                "tasks.max": "2",
            },
        }
        for name, config in self.connectors.items():
            self.workers[0].create(name, config)
        self._wait("the first lines")

    def _write(self) -> None:
        lines = [f"line {number}" for number in range(len(self._written), len(self._written) + LINES)]
        with self._source.open("a", encoding="utf-8") as end:
            end.writelines(f"{line}\n" for line in lines)
        self._written += lines

    def _read(self) -> set[str]:
        return set(self._sink.read_text(encoding="utf-8").splitlines()) if self._sink.exists() else set()

    def _wait(self, what: str) -> None:
        eventually(what, lambda: set(self._written) <= self._read(), self.report)

    def copy(self, what: str) -> None:
        """Write more lines, and wait until they are in the other file."""
        self._write()
        self._wait(what)

    def homes(self) -> dict[str, str]:
        """Return the worker of each running task."""
        return {
            f"{name}-{task}": home
            for name in self.connectors
            for task, home in self.workers[0].tasks(name).items()
        }

    def lose_a_worker(self) -> None:
        """Kill the one that reads the file: the other one takes all over."""
        everybody = {worker.id for worker in self.workers}
        eventually("tasks of both", lambda: set(self.homes().values()) == everybody, self.homes)
        homes = self.homes()
        (victim,) = [worker for worker in self.workers if worker.id == homes["source-0"]]
        self.workers.remove(victim)
        victim.kill()
        self.copy("every line after a worker's death")
        all_here = dict.fromkeys(homes, self.workers[0].id)
        eventually("all tasks at one worker", lambda: self.homes() == all_here, self.homes)

    def report(self) -> str:
        """What each worker printed last."""
        return "\n".join(worker.report() for worker in self.workers)

    def check(self) -> None:
        """Check that every record was written by the test."""
        assert self._read() == set(self._written)
