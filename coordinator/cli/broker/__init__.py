"""What the commands have in common that ask a broker over Kafka's protocol: how it is reached, and how they end."""
