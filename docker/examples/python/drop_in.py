"""groupd instead of Kafka in Testcontainers' module: pip install testcontainers; python drop_in.py"""

import sys

from testcontainers.kafka import KafkaContainer

if __name__ == "__main__":
    with KafkaContainer("groupd-kafka:8.0.0").with_kraft() as kafka:
        print(kafka.get_bootstrap_server(), flush=True)
        sys.stdin.read()
