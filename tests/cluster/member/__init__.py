"""One daemon of a cluster, over a model of etcd."""
