"""etcd as the engine of a cluster. Imported only where endpoints are configured: it needs the extra `cluster`."""

import os

# What gRPC would write to standard error past the log is in its errors as well.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
