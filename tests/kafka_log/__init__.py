"""The log against Apache Kafka itself: its tool reads our segments, and we serve what its brokers wrote."""
