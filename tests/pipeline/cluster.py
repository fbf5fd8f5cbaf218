"""A Spark cluster of its own on this machine: a standalone master and worker processes.

The engine is Spark's own. The processes are those of Spark's `sbin` scripts, which the Python package of Spark does
not have.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from pipeline.session import check_java

START_TIMEOUT_S: Final = 120
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_STOP_TIMEOUT_S: Final = 20


class ClusterFailed(Exception):
    """A process of the cluster did not start; the message ends with its output."""


class LocalCluster:
    """A context manager: inside of it the cluster runs, and `url` is that of its master, at a free port."""

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1200m") -> None:
        """Configure the cluster: the number of workers, and cores and memory of each."""
        self.url = ""
        self._workers, self._cores, self._memory = workers, cores, memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._directory = tempfile.TemporaryDirectory(prefix="groupd-cluster-")

    def __enter__(self) -> Self:
        """Starts it. Raises BadInput without Java, ClusterFailed."""
        check_java()
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> None:
        host = "127.0.0.1"
        arguments = ("--host", host, "--port", "0", "--webui-port", "0")
        self.url = self._until("master", _URL, self._run("master", _MASTER, *arguments))
        for number in range(self._workers):
            name = f"worker-{number}"
            options = ("--cores", str(self._cores), "--memory", self._memory, "--work-dir", self._place(name))
            self._run(name, _WORKER, "--host", host, "--webui-port", "0", *options, self.url)
        for number in range(self._workers):
            process = self._processes[number + 1]
            self._until(f"worker-{number}", re.compile(f"({_REGISTERED})"), process)

    def _place(self, name: str) -> str:
        return os.path.join(self._directory.name, name)

    def _run(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        script = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")
        logging = Path(__file__).with_name("cluster-log4j2.properties").as_uri()
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={logging}",
            "SPARK_LOCAL_IP": "127.0.0.1",
            # `spark-class` becomes the Java process, so that ending the one ends the other.
            "SPARK_NO_DAEMONIZE": "1",
        }
        with open(self._place(f"{name}.log"), "wb") as log:
            process = subprocess.Popen(
                [script, main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us, who then end them in order
            )
        self._processes.append(process)
        return process

    def _until(self, name: str, wanted: re.Pattern[str], process: subprocess.Popen[bytes]) -> str:
        """Wait for the first match in the log of a process, and return its group."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        said = ""
        while time.monotonic() < deadline_s:
            with open(self._place(f"{name}.log"), encoding="utf-8", errors="replace") as log:
                said = log.read()
            found = wanted.search(said)
            if found is not None:
                return found[1]
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise ClusterFailed(f"the {name} did not start:\n{said[-2000:]}")

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._directory.cleanup()
