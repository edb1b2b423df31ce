"""Where a pod finds the API server."""

from __future__ import annotations

import os
from collections.abc import Mapping


def api_server(environ: Mapping[str, str] = os.environ) -> str:
    """The URL of the API server as the kubelet tells it to every pod; KeyError outside of a pod.

    It is an address: the name ``kubernetes.default.svc`` takes the cluster's DNS, without which a node is to be looked
    after too. (Kubernetes documentation, "Accessing the Kubernetes API from a Pod")
    """
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
