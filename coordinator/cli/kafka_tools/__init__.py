"""Kafka's command-line tools, as far as compose files and scripts call them: `groupd kafka-tools TOOL [ARGUMENTS]`.

Each tool has the options, the output and the exit codes of the tool of Apache Kafka 4.4.0, as docs/kafka-tools.md
lists them. An image links the names of the tools to `python -m coordinator.cli.kafka_tools`.
"""
