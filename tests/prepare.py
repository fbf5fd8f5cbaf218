"""Download and build the files that tests need, before the tests: `python -m tests.prepare`.

Without it the first test that needs a file builds it, and the others wait for it.
"""

from benchmarks.kfake.server import kfake_command
from tests.cluster.etcd import linearizable
from tests.docker import recipes
from tests.ecosystem.program import CONNECT, STREAMS, registry
from tests.http.page.daemon_page import axe_build
from tests.interop import build
from tests.kafka_log import artifacts
from tests.pipeline.class_archive import quick_jvm
from tests.release import actionlint


def main() -> None:
    """Build everything that is not there yet; raises CannotBuild at the first that cannot be."""
    for command in (
        build.kafkajs(),
        build.java(),
        build.franz_go(),
        build.kafka(*CONNECT),
        build.kafka(*STREAMS),
        registry(),
        artifacts.tools(),
        artifacts.broker(),
        kfake_command("orders", 1),
        [axe_build()],
        recipes.node("plain.js"),
        recipes.go("plain"),
        recipes.java("Plain"),
        linearizable.checker(),
        actionlint.command(),
    ):
        print(" ".join(command))
    print(quick_jvm())


if __name__ == "__main__":
    main()
