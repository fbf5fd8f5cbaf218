"""Three stock clients behind one interface: they consume, commit and leave."""

from typing import Final

from tests.soak.clients.client import Client, Settings

KINDS: Final = ("confluent", "kafka-python", "aiokafka")


def make(kind: str, settings: Settings) -> Client:
    """A client of this kind; its library is imported only now."""
    if kind == "confluent":
        from tests.soak.clients.confluent import Confluent

        return Confluent(settings)
    if kind == "kafka-python":
        from tests.soak.clients.kafka_python import KafkaPython

        return KafkaPython(settings)
    assert kind == "aiokafka", kind
    from tests.soak.clients.aiokafka import AioKafka

    return AioKafka(settings)
