"""A cluster on real etcd: Debian's etcd-server or the binary in GROUPD_ETCD. Without etcd the tests are skipped."""
