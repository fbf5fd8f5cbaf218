"""A cluster on etcd itself: Debian's etcd-server, or what GROUPD_ETCD names; skipped where there is none."""
