"""groupd in a plain container: pip install testcontainers; python plain.py

The container's ports are known only once it runs. The program then sets the advertised address.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy


@contextmanager
def groupd(image: str = "groupd:dev") -> Iterator[str]:
    """Run a broker and yield its bootstrap address."""
    container = DockerContainer(image)
    container.with_exposed_ports(9092, 9080)
    container.with_env("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
    with container.waiting_for(HttpWaitStrategy(9080, "/ready")):
        host = container.get_container_host_ip()
        kafka, http = container.get_exposed_port(9092), container.get_exposed_port(9080)
        advertised = json.dumps({"PLAINTEXT": f"{host}:{kafka}"}).encode()
        url = f"http://{host}:{http}/v1/namespaces/default/advertised"
        headers = {"Content-Type": "application/json"}
        urlopen(Request(url, advertised, headers, method="PUT")).close()
        yield f"{host}:{kafka}"


if __name__ == "__main__":
    with groupd() as bootstrap:
        print(bootstrap, flush=True)
        sys.stdin.read()
