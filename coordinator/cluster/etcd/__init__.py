"""etcd as the store of a cluster. Imported only if endpoints are configured: it needs the extra `cluster`."""

import os

# gRPC reads this at its import, and no module of the package imports it earlier. Its errors contain the same
# messages that it would write to standard error past the log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
