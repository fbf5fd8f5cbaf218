"""A service of a compose file, started as a container would start it, without an engine for containers: its
environment and its command, with paths of the container moved to directories of a test, and ports to free ones."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.interop.requirement import lacking

DOCKER: Final = Path(__file__).parents[2] / "docker"
DATA: Final = "/var/lib/groupd"
TIMEOUT_S: Final = 90
_KAFKA_TOOL: Final = re.compile(r"/opt/kafka/bin/(kafka-[a-z-]+)\.sh")
_SET_BY_IMAGE: Final = re.compile(r"^(?:ENV)?\s+(GROUPD_\w+)=(\S+)", re.MULTILINE)


class ComposeService:
    """A service of a compose file with groupd's image. `log` has the lines of both of its streams."""

    def __init__(
        self,
        file: Path,
        directory: Path,
        ports: Mapping[str, str],
        environment: Mapping[str, str],
        service_name: str = "groupd",
    ) -> None:
        """Prepare one service of a compose file.

        Its `directory` is the project directory. `ports` maps the ports of the file to free ports. The process
        gets the given environment (PATH). The data directory is new, as the volume of another project.
        """
        described = _described(file)
        self._data = directory / f"data-{described['name']}"
        self._data.mkdir()
        service = described["services"][service_name]
        volumes = {
            each["target"]: str(directory / Path(each["source"]).name)
            for each in service.get("volumes", [])
            if each["type"] == "bind"
        }

        def moved(text: str) -> str:
            text = text.replace("$$", "$")  # as compose files have it
            for inside, outside in {**volumes, DATA: str(self._data)}.items():
                text = text.replace(inside, outside)
            return re.sub(rf"(?<=:)({'|'.join(ports)})\b", lambda port: ports[port[0]], text)

        told = dict(_SET_BY_IMAGE.findall((DOCKER / "Dockerfile").read_text())) | service["environment"]
        self.environment = {**environment, **{name: moved(text) for name, text in told.items()}}
        check = service.get("healthcheck", {}).get("test", ["CMD", str(DOCKER / "groupd-health")])
        words = [_KAFKA_TOOL.sub(r"groupd kafka-tools \1", moved(word)) for word in check[1:]]
        self._health_check = ["sh", "-c", *words] if check[0] == "CMD-SHELL" else words
        command = [*(service["entrypoint"] or ["groupd"]), *(service["command"] or ["serve"])]
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._process = subprocess.Popen(
            [moved(word) for word in command],
            cwd=self._data,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._grown:
                    self._lines.append(line)
                    self._grown.notify_all()

    @property
    def log(self) -> str:
        """What it has printed until now."""
        with self._grown:
            return "".join(self._lines)

    def await_line(self, pattern: re.Pattern[str]) -> None:
        """Waits until a line has this in it."""
        with self._grown:
            found = self._grown.wait_for(lambda: any(map(pattern.search, self._lines)), TIMEOUT_S)
        assert found, f"{pattern.pattern} is not in:\n{self.log}"

    def is_healthy(self) -> bool:
        """Run the health check of the file, or the image's where the file has none; its output goes to the log."""
        done = subprocess.run(
            self._health_check,
            env=self.environment,
            timeout=TIMEOUT_S,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        with self._grown:
            self._lines.append(done.stdout)
        return done.returncode == 0

    def send(self, number: signal.Signals) -> None:
        """As `docker compose kill --signal`."""
        self._process.send_signal(number)

    def stop(self) -> int:
        """As `docker compose stop`; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code


def _described(file: Path) -> dict[str, Any]:
    """The file as Compose itself parses it."""
    program = Path(sys.executable).parent / "docker-compose"
    if not program.exists():
        lacking(f"docker-compose is not installed beside {sys.executable}")
    done = subprocess.run(
        [str(program), "-f", str(file), "config", "--format", "json"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    described: dict[str, Any] = json.loads(done.stdout)
    return described
