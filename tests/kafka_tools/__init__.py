"""groupd's counterparts of Kafka's command-line tools, compared with what Kafka's own tools printed."""
