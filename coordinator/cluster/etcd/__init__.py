"""etcd as the engine of a cluster. Imported only where endpoints are configured: it needs the extra `cluster`."""
