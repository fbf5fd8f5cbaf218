"""What is built on Kafka's groups, run on groupd: Kafka Streams and Kafka Connect."""
