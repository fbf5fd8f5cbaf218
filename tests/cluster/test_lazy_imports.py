"""Who has no cluster imports nothing of one."""

import subprocess
import sys

FOREIGN = (
    "grpc",
    "google",
    "coordinator.cluster.etcd",
    "coordinator.cluster.member",
    "coordinator.cluster.daemon",
)


def test_a_daemon_without_a_cluster_has_nothing_of_it() -> None:
    code = f"import sys, coordinator.daemon\nprint([name for name in sys.modules if name.startswith({FOREIGN!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
