"""The image of docker/Dockerfile as a directory: the instructions of its last stage are carried out for real.

The base image and the build stage need a registry. In their place stand the commands of Debian's required packages,
this interpreter as the image's Python, and a virtual environment with this repository and the tests' packages.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.distribution.relocated import relocated_root
from tests.interop.requirement import lacking

REPOSITORY: Final = Path(__file__).parents[3]
DOCKERFILE: Final = REPOSITORY / "docker" / "Dockerfile"
USER_ID: Final = 10001
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_ENVIRONMENT: Final = "opt/groupd"
_SITE: Final = f"{_ENVIRONMENT}/lib/{_VERSION}/site-packages"
_ALTERNATIVES: Final = ("awk", "which")
"""Commands that Debian installs as links of update-alternatives."""
_ETC: Final = ("nsswitch.conf", "login.defs", "default/useradd", "debian_version", "ssl/openssl.cnf")
_VALUELESS: Final = frozenset({"VOLUME", "EXPOSE", "STOPSIGNAL"})
"""Instructions that change no file and that no test reads."""


class Mount(NamedTuple):
    """A file or directory of this machine and its path in the container."""

    source: str
    target: str
    is_read_only: bool = True


@dataclass(frozen=True)
class Image:
    """A directory with the files of an image, `mounts` that complete it, and the settings of a container."""

    root: Path
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    healthcheck: tuple[str, ...] = ()
    directory: str = "/"
    user: str = "root"

    def user_ids(self, user: str | None = None) -> tuple[int, int]:
        """Return the ids of a user and its group, as USER and the option --user name them."""
        name, _, group = (user or self.user).partition(":")
        entries = [line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()]
        found = [(int(entry[2]), int(entry[3])) for entry in entries if name in (entry[0], entry[2])]
        user_id, group_id = found[0] if found else (int(name), 0)
        return user_id, int(group) if group else group_id

    def resolve(self, path: str) -> str:
        """Return a path of the image without symbolic links."""
        resolved = "/"
        parts = [part for part in path.split("/") if part]
        while parts:
            candidate = os.path.join(resolved, parts.pop(0))
            here = self.root / candidate.lstrip("/")
            if here.is_symlink():
                target = os.readlink(here)
                parts = [*target.strip("/").split("/"), *parts]
                resolved = "/" if target.startswith("/") else resolved
            else:
                resolved = os.path.normpath(candidate)
        return resolved


def require_containers() -> None:
    """Skip the test where this machine cannot lay out and run containers."""
    if os.geteuid() != 0:
        lacking("containers without an engine need root: run the test as root")
    for command in ("dpkg-query", "unshare", "nsenter", "ldconfig"):
        if shutil.which(command) is None:
            lacking(f"{command} is not installed: containers without an engine need a Debian system")
    refusal = _namespace_refusal()
    if refusal:
        # Not `lacking`: no package brings what the kernel or a surrounding container forbids.
        pytest.skip(f"this system allows no namespaces with mounts: {refusal}")


@cache
def _namespace_refusal() -> str:
    """Return the system's message if it refuses the namespaces of a container, else an empty text."""
    steps = (
        "mount -t tmpfs tmpfs /mnt && mkdir /mnt/changes /mnt/work /mnt/root /mnt/proc && "
        "mount -t overlay -o lowerdir=/usr,upperdir=/mnt/changes,workdir=/mnt/work overlay /mnt/root && "
        "mount -t proc proc /mnt/proc"
    )
    command = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "sh", "-ec", steps]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def build_image(directory: Path) -> Image:
    """Carry out the last stage of the Dockerfile below an empty directory."""
    image = _lay_out_base(directory / "image")
    build = _lay_out_build_stage(directory / "build")
    image = replace(image, mounts=(*image.mounts, *_environment_mounts()))
    instructions = list(_instructions(DOCKERFILE.read_text()))
    last_stage = max(n for n, (word, _) in enumerate(instructions) if word == "FROM")
    return _carry_out(image, instructions[last_stage + 1 :], REPOSITORY, {"build": build})


def derive_image(base: Image, lines: tuple[str, ...], directory: Path, context: Path) -> Image:
    """Carry out instructions of a Dockerfile that builds from an image, on a copy of it below `directory`."""
    root = directory / "image"
    directory.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(base.root), str(root)], check=True)
    return _carry_out(replace(base, root=root), list(_instructions("\n".join(lines))), context, {})


# The base image


def _lay_out_base(root: Path) -> Image:
    for directory in (
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/local/bin",
        "etc/default",
        "etc/ssl",
        "var/lib",
        "run",
    ):
        (root / directory).mkdir(parents=True)
    for directory in ("proc", "dev", "opt", "root", "home", "srv", "mnt"):
        (root / directory).mkdir()
    for directory in ("tmp", "var/tmp"):
        (root / directory).mkdir()
        (root / directory).chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for command in _required_commands():
        target = root / "usr" / command.parent.name / command.name
        if not target.exists() and not target.is_symlink():
            shutil.copy2(command, target, follow_symlinks=False)
    for name in _ALTERNATIVES:
        command = Path("/usr/bin", name)
        if command.exists():
            shutil.copy2(command, root / "usr/bin" / name)
    for name in _ETC:
        if Path("/etc", name).exists():
            shutil.copy2(Path("/etc", name), root / "etc" / name)
    for name in ("passwd", "group"):
        shutil.copy2(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    mounts = [
        Mount(f"/usr/{name}", f"/usr/{name}") for name in ("lib", "lib64") if Path("/usr", name).exists()
    ]
    return Image(root, (*mounts, *_lay_out_python(root)))


def _required_commands() -> Iterator[Path]:
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${binary:Package} ${Essential} ${Priority}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split() for line in listed.splitlines()]
    packages = [row[0] for row in rows if "required" in row or "yes" in row]
    files = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout
    for line in files.splitlines():
        path = Path(line)
        is_command = path.parent.name in ("bin", "sbin") and path.parent.parent in (Path("/"), Path("/usr"))
        if is_command and (path.is_file() or path.is_symlink()):
            yield path


def _lay_out_python(root: Path) -> Iterator[Mount]:
    """Install this interpreter below /usr/local."""
    program = root / "usr/local/bin" / _VERSION
    shutil.copy2(os.path.realpath(sys.executable), program)
    (root / "usr/local/bin/python3").symlink_to(_VERSION)
    (root / "usr/local/lib" / _VERSION).mkdir(parents=True)
    yield Mount(sysconfig.get_path("stdlib"), f"/usr/local/lib/{_VERSION}")
    name, directory = (sysconfig.get_config_var(each) for each in ("INSTSONAME", "LIBDIR"))
    if name and Path(directory, name).exists() and name.endswith(".1.0"):
        shutil.copy2(Path(directory, name), root / "usr/local/lib" / name)
        (root / "etc/ld.so.conf").write_text("/usr/local/lib\n")
        subprocess.run(["ldconfig", "-r", str(root)], check=True)


# The build stage


def _lay_out_build_stage(root: Path) -> Path:
    environment = root / _ENVIRONMENT
    site = root / _SITE
    for directory in (environment / "bin", site / "groupd"):
        directory.mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/local/bin\ninclude-system-site-packages = false\n")
    (environment / "bin/python3").symlink_to("/usr/local/bin/python3")
    command = environment / "bin/groupd"
    command.write_text("#!/opt/groupd/bin/python3\nfrom groupd.coordinator.cli.main import main\n\nmain()\n")
    command.chmod(0o755)
    targets = [mount.target for mount in _environment_mounts() if "/dependencies-" in mount.target]
    for target in targets:
        (root / target.lstrip("/")).mkdir()
    (site / "dependencies.pth").write_text("\n".join(targets))
    return root


def _environment_mounts() -> Iterator[Mount]:
    yield Mount(str(relocated_root() / "groupd"), f"/{_SITE}/groupd")
    places = [path for path in sys.path if path.endswith("site-packages") and os.path.isdir(path)]
    for n, path in enumerate(places):
        yield Mount(path, f"/{_ENVIRONMENT}/lib/dependencies-{n}")


# Instructions


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def _carry_out(
    image: Image, instructions: list[tuple[str, str]], context: Path, stages: Mapping[str, Path]
) -> Image:
    for word, rest in instructions:
        match word:
            case "ENV":
                known = image.environment
                pairs = dict(entry.split("=", 1) for entry in shlex.split(rest))
                expanded = {name: value.replace("$PATH", known["PATH"]) for name, value in pairs.items()}
                image = replace(image, environment={**known, **expanded})
            case "ENTRYPOINT":
                image = replace(image, entrypoint=tuple(json.loads(rest)), command=())
            case "CMD":
                image = replace(image, command=tuple(json.loads(rest)))
            case "HEALTHCHECK":
                image = replace(image, healthcheck=("CMD", *json.loads(rest[rest.index("[") :])))
            case "USER":
                image = replace(image, user=rest)
                image.user_ids()
            case "WORKDIR":
                image = replace(image, directory=rest)
                (image.root / image.resolve(rest).lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY" | "ADD":
                _copy(image, rest.split(), context, stages)
            case "RUN":
                _run(image, rest)
            case _ if word not in _VALUELESS:
                raise ValueError(f"the stand-in for an engine does not know the instruction {word} {rest}")
    return image


def _copy(image: Image, words: list[str], context: Path, stages: Mapping[str, Path]) -> None:
    options = dict(word.removeprefix("--").split("=") for word in words if word.startswith("--"))
    *sources, target = (word for word in words if not word.startswith("--"))
    origin = stages[options.pop("from")] if "from" in options else context
    place = image.root / image.resolve(target).lstrip("/")
    is_directory = target.endswith("/") or len(sources) > 1 or (origin / sources[0].strip("/")).is_dir()
    (place if is_directory else place.parent).mkdir(parents=True, exist_ok=True)
    for source in sources:
        path = origin / source.strip("/")
        content = f"{path}/." if path.is_dir() else str(path)
        subprocess.run(["cp", "-R", "--preserve=mode,links", content, str(place)], check=True)
        copied = place if path.is_dir() or not is_directory else place / path.name
        mode = options.pop("chmod", None)
        if mode is not None:
            subprocess.run(["chmod", "-R", mode, str(copied)], check=True)
    if options:
        raise ValueError(f"the stand-in for an engine does not know the options {options} of COPY and ADD")


def _run(image: Image, command: str) -> None:
    user_id, group_id = image.user_ids()
    steps = (
        f"{mount_commands(image.mounts, image.root)}\n"
        f'exec chroot --userspec={user_id}:{group_id} --groups= {shlex.quote(str(image.root))} env -i "$@"'
    )
    variables = [f"{name}={value}" for name, value in image.environment.items()]
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", steps, "sh", *variables, "/bin/sh", "-c", command],
        check=True,
    )


def mount_commands(mounts: tuple[Mount, ...], root: Path) -> str:
    """Return commands of a shell that mount files, directories and the devices below the root of a container."""
    lines = [f"mount --bind /dev {shlex.quote(str(root / 'dev'))}"]
    for mount in mounts:
        target = shlex.quote(f"{root}{mount.target}")
        source = shlex.quote(mount.source)
        make = (
            f"mkdir -p {target}"
            if os.path.isdir(mount.source)
            else f"mkdir -p $(dirname {target}) && : >>{target}"
        )
        lines.append(f"[ -e {target} ] || {{ {make}; }}")
        lines.append(f"mount --bind {'-o ro ' * mount.is_read_only}{source} {target}")
    return "\n".join(lines)
