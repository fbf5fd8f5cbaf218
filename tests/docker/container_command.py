"""The part of the command `docker` that pytest-groupd uses, for an image laid out by `tests.docker.containers`.

`python -m tests.docker.container_command IMAGE_FILE run --rm --network host --name NAME IMAGE ARGUMENT...` runs a
container until SIGTERM, and writes its standard output. IMAGE_FILE is a pickled `Image`.
"""

import os
import pickle
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.docker.containers.container import Container
from tests.docker.containers.image import Image
from tests.docker.containers.network import NetworkNamespace

OPTIONS: Final = ["run", "--rm", "--network", "host", "--name"]


class HostNetwork(NetworkNamespace):
    """The network of this process, as `--network host` gives it to a container. It creates no namespace."""

    def __init__(self) -> None:
        pass

    @property
    def path(self) -> str:
        """The path by which other programs of this network enter it."""
        return "/proc/self/ns/net"


def write_command(path: Path, image: Image) -> None:
    """Write a program that runs containers of one image and ignores the given image name."""
    file = path.with_suffix(".pickle")
    file.write_bytes(pickle.dumps(image))
    repository = Path(__file__).parents[2]
    module = f"import sys; sys.path.insert(0, {str(repository)!r}); from {__name__} import main; main()"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{module}" {file} "$@"\n')
    path.chmod(0o755)


def main() -> None:
    """Run a container. Exits with 125 for other arguments, as Docker does for its own errors."""
    file, *arguments = sys.argv[1:]
    if arguments[: len(OPTIONS)] != OPTIONS:
        sys.exit(125)
    image: Image = pickle.loads(Path(file).read_bytes())
    _, _, *command = arguments[len(OPTIONS) :]
    with tempfile.TemporaryDirectory(prefix="groupd-container-") as directory:
        container = Container(image, Path(directory) / "container", HostNetwork(), command=command)
        signal.signal(signal.SIGTERM, lambda *_: container.stop())
        container.start()
        container.wait_for_output("groupd ready")
        os.write(sys.stdout.fileno(), container.standard_output)
        code = container.wait()
        container.remove()
    sys.exit(code)
