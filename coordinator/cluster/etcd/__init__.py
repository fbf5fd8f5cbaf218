"""etcd as the store of a cluster. Imported only where endpoints are configured: it needs the extra `cluster`."""

import os

# gRPC reads this when it is imported, which no module of the package does before. What it would write to standard
# error past the log is in its errors as well.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
