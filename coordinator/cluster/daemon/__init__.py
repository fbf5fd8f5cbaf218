"""A server as one daemon of a cluster on etcd. Imported only if endpoints are configured."""
