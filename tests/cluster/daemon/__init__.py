"""Several servers in this process as daemons of a cluster, over a model of etcd."""
