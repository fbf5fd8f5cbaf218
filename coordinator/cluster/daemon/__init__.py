"""A server as one daemon of a cluster on etcd. Imported only where endpoints are configured."""
