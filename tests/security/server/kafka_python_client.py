"""kafka-python produces a record and reads one: python kafka_python_client.py '{"bootstrap_servers": …}'

It runs in its own process, because imports of the library emit warnings and warnings fail tests.
"""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer

TIMEOUT_S = 60


def main() -> None:
    how = json.loads(sys.argv[1])
    producer = KafkaProducer(**how)
    producer.send("orders", b"from kafka-python").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer("orders", group_id="kafka-python", auto_offset_reset="earliest", **how)
    print(next(iter(consumer)).value)
    consumer.commit()
    consumer.close()


if __name__ == "__main__":
    main()
