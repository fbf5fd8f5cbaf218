"""The peer in C: librdkafka's mock cluster, one broker."""

import signal
import sys

from confluent_kafka import Producer


def main() -> None:
    """Serve until SIGTERM; the cluster lives as long as the client that holds it. The argument is a topic."""
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced by the mock"})
    (broker,) = client.list_topics(sys.argv[1], timeout=10).brokers.values()  # asking creates it
    print(f"{broker.host}:{broker.port}", flush=True)
    signal.sigwait(signals)


if __name__ == "__main__":
    main()
