"""A real broker on a data directory: one node, controller included."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from protocol.messages.metadata import MetadataRequest
from tests.free_ports import free_ports
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_log.artifacts import NEWEST, broker
from tests.kafka_log.connection import Connection

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
START_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 60
_QUIET: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Xms64m")


class KafkaBroker:
    """One broker process. It is formatted on first start; later starts keep the data."""

    def __init__(
        self,
        directory: str,
        properties: Mapping[str, str],
        version: str = NEWEST,
        java_options: Sequence[str] = (),
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        """Create a broker without starting it.

        Args:
            directory: for the data and other files.
            properties: further properties.
            version: one of `artifacts.BROKERS`.
            java_options: options of the JVM; they override the defaults, which shorten the start.
            listeners: security protocols by name of further listeners besides the PLAINTEXT one.
        """
        self._java_options = java_options
        self._version = version
        self.data_directory = os.path.join(directory, "data")
        self._directory = directory
        self._properties = dict(properties)
        self._listeners = dict(listeners or {})
        self._ports = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = f"127.0.0.1:{self._ports[0]}"
        ports = free_ports(len(self._listeners))
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(self._listeners, ports, strict=True)
        }
        """Where the other listeners are."""

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self, **properties: str) -> None:
        """Start the broker with changed properties (underscores for dots), and wait until it serves requests."""
        self._properties |= {name.replace("_", "."): value for name, value in properties.items()}
        config = os.path.join(self._directory, "server.properties")
        with open(config, "w", encoding="utf-8") as file:
            file.writelines(
                f"{name}={value}\n" for name, value in (self._necessary() | self._properties).items()
            )
        command = [*broker(self._version), *_QUIET, *self._java_options]
        if not os.path.exists(os.path.join(self.data_directory, "meta.properties")):
            format_storage = [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config]
            subprocess.run(format_storage, check=True, stdout=subprocess.DEVNULL, timeout=START_TIMEOUT_S)
        with open(os.path.join(self._directory, "broker.log"), "ab") as log:
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", config], stdout=log, stderr=log, start_new_session=True
            )
        self._wait(self._process)

    def _necessary(self) -> dict[str, str]:
        port, controller_port = self._ports
        others = [f",{name}://{address}" for name, address in self.addresses.items()]
        protocols = [f",{name}:{protocol}" for name, protocol in self._listeners.items()]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": "".join(
                [f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}", *others]
            ),
            "advertised.listeners": "".join([f"PLAINTEXT://127.0.0.1:{port}", *others]),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "".join(
                ["PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", *protocols]
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data_directory,
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "100",
            # A slow machine alone neither fences the broker nor makes its controller log errors. The controller
            # refuses a broker that was killed until its last session has ended.
            "broker.session.timeout.ms": "20000",
            "initial.broker.registration.timeout.ms": "180000",
            "controller.performance.always.log.threshold.ms": "180000",
        }

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with Connection(self.bootstrap) as connection:
                    connection.call(MetadataRequest(topics=[]), 12)
                return
            except (OSError, AssertionError):
                if time.monotonic() > deadline or process.poll() is not None:
                    self.kill()
                    raise
            time.sleep(0.1)

    def stop(self) -> None:
        """A controlled shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9; nothing where it does not run."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def running(directory: Path, properties: Mapping[str, str] | None = None) -> Iterator[KafkaBroker]:
    """A broker on the data below a directory. Where its artifacts cannot be had, the test is skipped or fails."""
    broker = KafkaBroker(str(directory), {"log.index.size.max.bytes": "65536", **(properties or {})})
    try:
        broker.start()
    except CannotBuild as reason:
        lacking(f"a broker: {reason}")
    try:
        yield broker
    finally:
        broker.kill()
