"""One daemon in a cluster on etcd: asyncio drivers of its session, its partitions and its appends."""
