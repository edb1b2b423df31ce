"""Where a pod finds the API server."""

from __future__ import annotations

import pytest

from mig_manager.kube.in_cluster import api_server


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_by_address(host: str, url: str) -> None:
    """The address that the kubelet tells, of either family, makes the URL."""
    assert url == api_server({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"})


def test_outside_of_a_pod() -> None:
    """Nobody tells an address there."""
    with pytest.raises(KeyError):
        api_server({})
