"""Services of public set-ups beside groupd's image, such as Kafka Connect: programs in networks of their own."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from tests.docker.containers.network import LOCALHOST, PortForwarder
from tests.docker.environments.environment_run import EnvironmentRun
from tests.ecosystem.program import Program
from tests.ecosystem.rest import START_TIMEOUT_S, fetch
from tests.interop.broker import eventually


class SideService:
    """A program with the name and the environment of a service. Its HTTP port is reached at `url`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        port: int,
        *,
        environment: Mapping[str, str],
        setup: EnvironmentRun,
        forwarder: PortForwarder,
    ) -> None:
        """Start it. `port` is its HTTP port; the brokers of `setup` run."""
        place = setup.open_place(name)
        variables = {"PATH": os.environ["PATH"], "HOME": "/tmp", **environment}
        pairs = [f"{variable}={value}" for variable, value in variables.items()]
        self._program = Program(place.command(["env", "-i", *pairs, *command]))
        forwarded = forwarder.forward(None, (LOCALHOST, 0), place.network, (LOCALHOST, port))
        self.url: Final = f"http://{LOCALHOST}:{forwarded.port}"

    def fetch(
        self, path: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None
    ) -> str:
        """Return the body of a successful answer; nothing if it refuses or cannot be reached."""
        return fetch(f"{self.url}{path}", method, body, headers).decode()

    def wait_for(self, path: str, text: str = "") -> str:
        """Wait for an answer that contains a text; return it."""
        answers = [""]

        def is_there() -> bool:
            answers.append(self.fetch(path))
            return answers[-1] != "" and text in answers[-1]

        eventually(
            f"{text or 'an answer'} at {path}",
            is_there,
            lambda: f"{answers[-1]}\n{self.report()}",
            START_TIMEOUT_S,
        )
        return answers[-1]

    def kill(self) -> None:
        """Kill it."""
        self._program.kill()

    def report(self) -> str:
        """Return the end of its output."""
        return self._program.report()


def confluent_properties(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the properties that the entry point of Confluent's images derives from variables with a prefix."""
    return {
        _property_name(variable.removeprefix(prefix)): value
        for variable, value in environment.items()
        if variable.startswith(prefix)
    }


def _property_name(variable: str) -> str:
    dashed = variable.lower().replace("___", "-").replace("__", "\0")
    return dashed.replace("_", ".").replace("\0", "_")
