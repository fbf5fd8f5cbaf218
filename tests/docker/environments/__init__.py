"""Public set-ups that start a Kafka image, and their results with groupd."""
