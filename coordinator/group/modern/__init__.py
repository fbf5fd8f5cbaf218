"""What groups of the newer protocols compute, whatever the group: hashes, orders, assignments."""
