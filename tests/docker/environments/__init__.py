"""Public set-ups that start a Kafka image, and what groupd makes of them."""
