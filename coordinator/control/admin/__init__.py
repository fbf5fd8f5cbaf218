"""Administration of brokers, groups, offsets and topics over HTTP and the command line."""
