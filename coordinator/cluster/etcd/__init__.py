"""etcd as the store of a cluster. Imported only if endpoints are configured: it needs the extra `cluster`."""

import os

# gRPC reads this variable at its import, which happens in a module of this package. It suppresses messages on
# standard error, which bypass groupd's log; the exceptions of gRPC contain the same messages.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
