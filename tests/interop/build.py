"""Build the drivers that are not Python, once, into a cache inside the checkout.

A build's directory is named after a digest of its sources, so a changed source builds again and nothing that
is in use is ever overwritten. A lock file lets several test processes share the cache. A build does not count
against the time of the test that wants it first.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable

from tests.shared_fixtures import own_limit

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
CLIENTS = os.path.join(HERE, "clients")
CACHE = os.path.join(CHECKOUT, ".cache", "interop")
BUILD_TIMEOUT_S = 900
ONCE_TIMEOUT_S = 4 * BUILD_TIMEOUT_S  # two steps, and as long for another process to be done with them
COPY_JARS = (
    *("-q", "-B", "dependency:copy-dependencies"),
    *("-DincludeScope=runtime", "-DoutputDirectory=jars"),
)
"""What Maven is to do with a pom that only lists jars."""
JAVA_SOURCES = [os.path.join(CLIENTS, "java", name) for name in ("Driver.java", "Cells.java", "pom.xml")]
JVM_OPTIONS = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"),
    *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8"),
)
"""For programs that run for seconds. They print UTF-8 in every locale."""
MORE_PLACES = ("/usr/local/go/bin", "/usr/local/bin")


class CannotBuild(Exception):
    """A tool or a download is missing; the text names it."""


def tool(name: str) -> str:
    """Return the path of a program; raise CannotBuild where the machine has none."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(MORE_PLACES))
    if found is None:
        raise CannotBuild(f"{name} is not installed")
    return found


def run(command: list[str], directory: str) -> None:
    """Run a step of a build; on failure raise CannotBuild with the end of its output."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"{os.path.basename(command[0])} did not finish in {BUILD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise CannotBuild(f"{os.path.basename(command[0])} {command[1]} failed: {said}")


def _digest(sources: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sources:
        with open(path, "rb") as source:
            content = source.read()
        digest.update(f"{os.path.basename(path)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def once(name: str, sources: list[str], build: Callable[[str], None]) -> str:
    """Return the directory that holds the build of these sources, building it at most once."""
    target = os.path.join(CACHE, f"{name}-{_digest(sources)}")
    os.makedirs(CACHE, exist_ok=True)
    with (
        own_limit(f"{name} was not built", ONCE_TIMEOUT_S),
        open(os.path.join(CACHE, f"{name}.lock"), "w", encoding="ascii") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(target):
            fresh = f"{target}.partial"
            shutil.rmtree(fresh, ignore_errors=True)
            os.makedirs(fresh)
            for path in sources:
                shutil.copy(path, fresh)
            build(fresh)
            os.rename(fresh, target)
    return target


def kafkajs_build() -> str:
    """Install kafkajs from its lock file; return the directory, which has it in node_modules."""
    npm = tool("npm")
    folder = os.path.join(CLIENTS, "kafkajs")
    names = ("driver.js", "cells.js", "package.json", "package-lock.json", ".npmrc")
    sources = [os.path.join(folder, name) for name in names]
    install = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    return once("kafkajs", sources, lambda fresh: run(install, fresh))


def kafkajs(program: str = "driver.js") -> list[str]:
    """Return the command that runs the kafkajs driver, or another program of that folder."""
    return [tool("node"), os.path.join(kafkajs_build(), program)]


def java_build() -> str:
    """Fetch the Java client's jars and compile the driver; return the directory, which has them in jars."""
    compiler, packer, maven = tool("javac"), tool("jar"), tool("mvn")

    def build(fresh: str) -> None:
        run([maven, *COPY_JARS], fresh)
        run([compiler, "-cp", "jars/*", "-d", "classes", "Driver.java", "Cells.java"], fresh)
        run([packer, "--create", "--file", "driver.jar", "-C", "classes", "."], fresh)

    return once("java-client", JAVA_SOURCES, build)


def java_machine() -> list[str]:
    """Return the command that runs the Java driver, but for the name of its class: more options go in between."""
    virtual_machine, target = tool("java"), java_build()
    # Jars alone: classes from directories are never archived.
    class_path = os.pathsep.join((os.path.join(target, "driver.jar"), os.path.join(target, "jars", "*")))
    return [
        *(virtual_machine, *JVM_OPTIONS, "-Xmx128m"),
        *("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"),
        *("-cp", class_path),
    ]


def java(program: str = "Driver") -> list[str]:
    """Return the command that runs the Java driver, or another class beside it, from an archive of the driver's
    classes: it starts in half the work.
    """
    machine = java_machine()
    make = [sys.executable, "-m", "tests.interop.java_archive"]
    target = once("java-archive", JAVA_SOURCES, lambda fresh: run([*make, _archive(fresh)], CHECKOUT))
    return [*machine, f"-XX:SharedArchiveFile={_archive(target)}", program]


def _archive(directory: str) -> str:
    return os.path.join(directory, "driver.jsa")


def franz_go() -> list[str]:
    """Compile the franz-go driver; return the command that runs it."""
    go = tool("go")
    folder = os.path.join(CLIENTS, "franz_go")
    sources = [
        os.path.join(folder, name) for name in ("main.go", "transact.go", "cells.go", "go.mod", "go.sum")
    ]
    target = once("franz_go", sources, lambda fresh: run([go, "build", "-o", "driver", "."], fresh))
    return [os.path.join(target, "driver")]


def kafka(name: str, folder: str, programs: tuple[str, ...] = ()) -> list[str]:
    """Fetch the jars of Kafka that a pom lists and compile Java programs with them. Return the command that runs a
    class by its name.

    `name` is the key in the cache. `folder` has pom.xml and the programs (files NAME.java).
    """
    virtual_machine, maven = tool("java"), tool("mvn")
    compiler = tool("javac") if programs else ""

    def build(fresh: str) -> None:
        run([maven, *COPY_JARS], fresh)
        if programs:
            run([compiler, "-cp", "jars/*", "-d", "classes", *programs], fresh)

    target = once(name, [os.path.join(folder, source) for source in ("pom.xml", *programs)], build)
    class_path = os.pathsep.join((os.path.join(target, "classes"), os.path.join(target, "jars", "*")))
    return [
        *(virtual_machine, *JVM_OPTIONS, "-Xmx384m"),
        *("-cp", class_path),
    ]


def maven_archive(name: str, artifact: str) -> str:
    """Fetch and unpack an archive of Maven, and return its directory. `name` is the key in the cache; `artifact` is
    GROUP:ARTIFACT:VERSION:TYPE:CLASSIFIER.
    """
    maven = tool("mvn")
    arguments = (f"-Dartifact={artifact}", "-DoutputDirectory=archive")
    target = once(
        f"{name}-{artifact.split(':')[2]}",
        [],
        lambda fresh: run([maven, "-q", "-B", "dependency:unpack", *arguments], fresh),
    )
    return os.path.join(target, "archive")
