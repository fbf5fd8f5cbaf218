"""What the newer group protocols compute: assignments, hashes of topics, orders. It knows no group."""
