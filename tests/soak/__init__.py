"""Hard use for minutes, judged all the time: ``make soak``."""

import os

# gRPC tells of every socket that a simulated plugin closes; it looks here when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
