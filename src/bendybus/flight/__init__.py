"""The bulk door: messages as Arrow record batches, over Arrow Flight (decisions/0019)."""

import os

# gRPC writes to standard error what is told in the log anyway, each time a client goes away.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
