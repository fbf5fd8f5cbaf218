"""An image as docker/Dockerfile describes it: what it starts, with which variables, and which files it has."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]
_DOCKERFILE: Final = REPOSITORY / "docker" / "Dockerfile"
_FROM: Final = re.compile(r"FROM (\S+)(?: AS (\S+))?")


@dataclass
class Image:
    """What a stage of the Dockerfile makes. `copied` are files of the repository by their place in the image,
    `links` what points where."""

    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    directory: str = "/"
    copied: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def lay_out(self, root: Path, moved: Callable[[str], str]) -> None:
        """Puts what it has below a directory. In: what the texts of its files are to be there."""
        for place, source in self.copied.items():
            target = root / place.strip("/")
            for file in (REPOSITORY / source).rglob("*"):
                target.mkdir(parents=True, exist_ok=True)
                copied = target / file.name
                copied.write_text(moved(file.read_text()))
                copied.chmod(file.stat().st_mode)
        for place, pointed in self.links.items():
            link = root / place.strip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            inside = root / pointed.strip("/")
            link.symlink_to(inside if inside.exists() else pointed)
        (root / self.directory.strip("/")).mkdir(parents=True, exist_ok=True)


def image_of(stage: str) -> Image:
    """What a stage makes, with all that the stages below it say."""
    lines = re.sub(r"\\\n\s*", "", _DOCKERFILE.read_text()).splitlines()
    stages: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in lines:
        begun = _FROM.fullmatch(line)
        if begun is not None:
            name = begun[2] or "default"
            stages[name] = (begun[1], [])
        elif name and not line.startswith("#"):
            stages[name][1].append(line)
    below, said = stages[stage]
    image = image_of(below) if below in stages else Image()
    for line in said:
        _add(image, *line.partition(" ")[::2])
    return image


def _add(image: Image, word: str, said: str) -> None:
    match word:
        case "ENV":
            image.environment |= dict(one.split("=", 1) for one in shlex.split(said))
        case "ENTRYPOINT":
            image.entrypoint, image.command = json.loads(said), []
        case "CMD":
            image.command = json.loads(said)
        case "WORKDIR":
            image.directory = said
        case "COPY":
            *options, source, place = said.split()
            if not any(option.startswith("--from") for option in options):
                image.copied[place] = source
        case "RUN":
            for step in said.split("&&"):
                if step.split()[:2] == ["ln", "-s"]:
                    _, _, pointed, place = step.split()
                    image.links[place] = pointed
