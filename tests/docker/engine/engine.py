"""The part of an engine's API that Testcontainers uses: `python -m tests.docker.engine.engine DIRECTORY` serves
it and prints its port. It ends with its standard input, and its containers with it. It needs root.

Source: Docker's Engine API, v1.44.
"""

import asyncio
import secrets
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.docker.containers.container import STDOUT, Container
from tests.docker.containers.image import Image, build_image
from tests.docker.containers.network import LOCALHOST, ForwardedPort, NetworkNamespace, PortForwarder

API: Final = "1.44"
IMAGES: Final = ("groupd:dev", "groupd-kafka:8.0.0")
"""Tags of the image."""
_STARTED: Final = "2026-01-01T00:00:00.000000000Z"
_NETWORK: Final = {
    "Id": "bridge",
    "Name": "bridge",
    "Driver": "bridge",
    "Scope": "local",
    "IPAM": {"Config": [{"Gateway": "127.0.0.1", "Subnet": "127.0.0.0/8"}]},
    "Labels": {},
    "Containers": {},
    "Options": {},
}


_INSIDE: Final = "127.0.1.1"
"""The address of a container in its own network."""


class EngineContainer:
    """A container with its state in the engine. `asked` is the body of the request that created the container."""

    def __init__(
        self, image: Image, directory: Path, forwarder: PortForwarder, name: str, asked: dict[str, Any]
    ) -> None:
        self.id: Final = secrets.token_hex(32)
        self.name: Final = name or self.id[:12]
        self.hostname: Final = asked.get("Hostname") or self.id[:12]
        self.asked: Final = asked
        self._network = NetworkNamespace()
        self.container: Final = Container(
            image,
            directory,
            self._network,
            hostname=self.hostname,
            hosts=f"{LOCALHOST} localhost\n{_INSIDE} {self.hostname}\n",
            environment=dict(entry.split("=", 1) for entry in asked.get("Env") or []),
            entrypoint=asked.get("Entrypoint") or None,
            command=asked.get("Cmd") or None,
            user=asked.get("User") or None,
        )
        published = {
            *(asked.get("ExposedPorts") or {}),
            *((asked.get("HostConfig") or {}).get("PortBindings") or {}),
        }
        inner = sorted(int(port.removesuffix("/tcp")) for port in published)
        self.ports: Final[dict[int, ForwardedPort]] = {
            port: forwarder.forward(None, (LOCALHOST, 0), self._network, (_INSIDE, port)) for port in inner
        }
        """Ports of this machine by those of the container."""

    def remove(self) -> None:
        """End its processes and close its ports."""
        for port in self.ports.values():
            port.close()
        self.container.remove()
        self._network.close()


class Engine:
    """The handlers of the API."""

    def __init__(self, image: Image, directory: Path, forwarder: PortForwarder) -> None:
        self._image_files = image
        self._directory = directory
        self._forwarder = forwarder
        self._containers: dict[str, EngineContainer] = {}
        self._commands: dict[str, _ExecutedCommand] = {}

    def application(self) -> web.Application:
        """Its routes, with and without a version in front."""
        application = web.Application(client_max_size=1 << 24)
        for method, path, handler in (
            ("GET", "/_ping", self._ping),
            ("GET", "/version", self._version),
            ("GET", "/info", self._info),
            ("GET", "/images/json", self._images),
            ("GET", "/images/{image:.+}/json", self._image),
            ("POST", "/containers/create", self._create),
            ("GET", "/containers/json", self._list),
            ("POST", "/{what:containers|images|networks|volumes}/prune", self._prune),
            ("GET", "/networks", self._networks),
            ("GET", "/networks/{network}", self._network),
            ("POST", "/containers/{id}/start", self._start),
            ("GET", "/containers/{id}/json", self._inspect),
            ("GET", "/containers/{id}/logs", self._logs),
            ("PUT", "/containers/{id}/archive", self._put),
            ("POST", "/containers/{id}/exec", self._exec),
            ("POST", "/exec/{id}/start", self._exec_start),
            ("GET", "/exec/{id}/json", self._exec_json),
            ("POST", "/containers/{id}/{how:stop|kill}", self._stop),
            ("DELETE", "/containers/{id}", self._delete),
        ):
            for prefix in ("", "/v{version:[0-9.]+}"):
                application.router.add_route(method, prefix + path, handler)
                if path == "/_ping":
                    application.router.add_route("HEAD", prefix + path, handler)
        return application

    def close(self) -> None:
        """Removes every container."""
        for container in self._containers.values():
            container.remove()

    def _find(self, request: web.Request) -> EngineContainer:
        asked = request.match_info["id"]
        for container in self._containers.values():
            if container.id.startswith(asked) or container.name == asked.strip("/"):
                return container
        raise _nothing(f"No such container: {asked}")

    # What there is

    async def _ping(self, request: web.Request) -> web.Response:
        headers = {"Api-Version": API, "Ostype": "linux", "Docker-Experimental": "false"}
        return web.Response(text="OK", headers=headers)

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"Version": "25.0.0", "ApiVersion": API, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
        )

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "ID": "local",
                "Name": "local",
                "OperatingSystem": "local",
                "OSType": "linux",
                "Architecture": "x86_64",
                "ServerVersion": "25.0.0",
                "MemTotal": 1 << 32,
                "NCPU": 2,
                "Labels": [],
                "Driver": "local",
            }
        )

    async def _images(self, request: web.Request) -> web.Response:
        return web.json_response([{"Id": name, "RepoTags": [name]} for name in IMAGES])

    async def _image(self, request: web.Request) -> web.Response:
        name = request.match_info["image"].removeprefix("docker.io/").removeprefix("library/")
        if name not in IMAGES:
            raise _nothing(f"No such image: {name}")
        config: dict[str, Any] = {"Labels": {}, "Env": [], "Cmd": [], "ExposedPorts": {}}
        return web.json_response(
            {"Id": f"sha256:{'0' * 64}", "RepoTags": [name], "Os": "linux", "Architecture": "amd64"}
            | {"Config": config, "Created": _STARTED}
        )

    async def _networks(self, request: web.Request) -> web.Response:
        return web.json_response([_NETWORK])

    async def _network(self, request: web.Request) -> web.Response:
        return web.json_response(_NETWORK)

    async def _prune(self, request: web.Request) -> web.Response:
        return web.json_response({})

    # Containers

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if asked["Image"] not in IMAGES:
            raise _nothing(f"No such image: {asked['Image']}")
        root = Path(tempfile.mkdtemp(dir=self._directory))
        name = request.query.get("name", "")
        container = EngineContainer(self._image_files, root / "container", self._forwarder, name, asked)
        self._containers[container.id] = container
        return web.json_response({"Id": container.id, "Warnings": []}, status=201)

    async def _start(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._find(request).container.start)
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response(
            [
                {"Id": one.id, "Names": [f"/{one.name}"], "State": "running", "Ports": [], "Labels": {}}
                for one in self._containers.values()
            ]
        )

    async def _inspect(self, request: web.Request) -> web.Response:
        return web.json_response(_inspected(self._find(request)))

    async def _put(self, request: web.Request) -> web.Response:
        self._find(request).container.put(request.query["path"], await request.read())
        return web.Response()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        container = self._find(request).container
        answer = web.StreamResponse()
        answer.content_type = "application/vnd.docker.multiplexed-stream"
        await answer.prepare(request)
        follows = request.query.get("follow", "0").lower() in ("1", "true")
        sent = 0
        while True:
            for number, piece in container.pieces[sent:]:
                await answer.write(_frame(number, piece))
                sent += 1
            if not follows or not container.is_running:
                return answer
            await asyncio.sleep(0.05)

    async def _exec(self, request: web.Request) -> web.Response:
        asked = await request.json()
        command_id = secrets.token_hex(32)
        self._commands[command_id] = _ExecutedCommand(self._find(request), asked["Cmd"])
        return web.json_response({"Id": command_id}, status=201)

    async def _exec_start(self, request: web.Request) -> web.Response:
        command = self._commands[request.match_info["id"]]
        result = await asyncio.to_thread(command.container.container.execute, command.words)
        command.exit_code = result.exit_code
        body = _frame(STDOUT, result.output.encode()) if result.output else b""
        return web.Response(body=body, content_type="application/vnd.docker.multiplexed-stream")

    async def _exec_json(self, request: web.Request) -> web.Response:
        command = self._commands[request.match_info["id"]]
        state = {"Running": False, "ExitCode": command.exit_code, "ContainerID": command.container.id}
        return web.json_response(state)

    async def _stop(self, request: web.Request) -> web.Response:
        self._find(request).container.remove()
        return web.Response(status=204)

    async def _delete(self, request: web.Request) -> web.Response:
        container = self._find(request)
        container.remove()
        del self._containers[container.id]
        return web.Response(status=204)


@dataclass(slots=True)
class _ExecutedCommand:
    """A command of the API's exec."""

    container: EngineContainer
    words: list[str]
    exit_code: int = 0


def _frame(stream: int, content: bytes) -> bytes:
    """Return a frame of Docker's multiplexed streams."""
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


def _nothing(why: str) -> web.HTTPNotFound:
    return web.HTTPNotFound(text=f'{{"message": "{why}"}}', content_type="application/json")


def _inspected(container: EngineContainer) -> dict[str, Any]:
    ports = {
        f"{inner}/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(port.port)}]
        for inner, port in container.ports.items()
    }
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "Created": _STARTED,
        "Image": container.asked["Image"],
        "State": {
            "Status": "running" if container.container.is_running else "exited",
            "Running": container.container.is_running,
            "StartedAt": _STARTED,
            "FinishedAt": _STARTED,
            "ExitCode": 0,
        },
        "Config": {
            "Hostname": container.hostname,
            "Tty": False,
            "Image": container.asked["Image"],
            "Env": [f"{key}={text}" for key, text in container.container.environment.items()],
            "Labels": container.asked.get("Labels") or {},
            "ExposedPorts": {port: {} for port in ports},
        },
        "HostConfig": container.asked.get("HostConfig") or {},
        "Mounts": [],
        "NetworkSettings": {
            "Ports": ports,
            "IPAddress": "127.0.0.1",
            "Gateway": "127.0.0.1",
            "Networks": {
                "bridge": {
                    "IPAddress": "127.0.0.1",
                    "Gateway": "127.0.0.1",
                    "NetworkID": "bridge",
                    "Aliases": [],
                }
            },
        },
    }


async def _serve(directory: Path) -> None:
    with PortForwarder() as forwarder:
        engine = Engine(build_image(directory), directory, forwarder)
        runner = web.AppRunner(engine.application(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, LOCALHOST, 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        engine.close()
        await runner.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
