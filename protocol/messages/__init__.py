"""The messages, one file an API: request and response, fields in wire order under Kafka's names."""
