"""Shared code of the commands that call a broker over Kafka's protocol: connection, login and exit codes."""
