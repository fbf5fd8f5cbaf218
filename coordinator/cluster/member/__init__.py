"""One daemon in a cluster on etcd: its session, what it owns, its appends. The pure cores, run by asyncio."""
