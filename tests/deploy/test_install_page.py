"""docs/install.md is true: its overlay and every patch of it render, and its MIGConfig is valid."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mig_manager.agent.clients import load_clients
from mig_manager.cli.main import program
from mig_manager.sim.controlplane.kubectl import find_kubectl
from tests.deploy.manifests import DEPLOY, ROOT

PAGE = (ROOT / "docs" / "install.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HERE_DOCUMENTS = {
    Path(name).name: text
    for name, text in re.findall(r"^cat > (\S+) <<'EOF'\n(.*?)^EOF$", PAGE, re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """The page's overlay beside a copy of what it refers to."""
    for name in ("deploy", "crds"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "my-cluster").mkdir()
    (tmp_path / "my-cluster" / "kustomization.yaml").write_text(HERE_DOCUMENTS["kustomization.yaml"])
    return tmp_path / "my-cluster"


def agent_of(overlay: Path) -> dict[str, Any]:
    """The agent's pod as the overlay renders it."""
    command = [str(find_kubectl()), "kustomize", str(overlay)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (agent,) = (m for m in yaml.safe_load_all(text) if m["kind"] == "DaemonSet")
    pod: dict[str, Any] = agent["spec"]["template"]["spec"]
    return pod


def extended(overlay: Path, field: str, block: str) -> dict[str, Any]:
    """The agent's pod with a block of the page added to the overlay's field."""
    file = overlay / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    content[field] = yaml.safe_load(block)
    file.write_text(yaml.safe_dump(content))
    return agent_of(overlay)


def block_with(text: str) -> str:
    (found,) = (block for block in BLOCKS if text in block)
    return str(found)


def components_with(text: str) -> str:
    """What a block says about components."""
    return yaml.safe_dump(yaml.safe_load(block_with(f"components/{text}"))["components"])


def test_overlay_names_the_image(overlay: Path) -> None:
    """The image that was built and pushed is the one that the overlay installs."""
    image = agent_of(overlay)["containers"][0]["image"]
    assert f"-t {image} ." in PAGE
    assert f"docker push {image}\n" in PAGE


def test_other_nodes_can_be_chosen(overlay: Path) -> None:
    """The patch replaces the affinity by a node selector."""
    pod = extended(overlay, "patches", block_with("template/spec/nodeSelector"))
    assert "affinity" not in pod
    assert {"accelerator": "nvidia"} == pod["nodeSelector"]


def test_driver_on_the_host_can_be_chosen(overlay: Path) -> None:
    """The patch changes the driver's root and nothing else of the environment."""
    before = {v["name"] for v in agent_of(overlay)["containers"][0]["env"]}
    after = extended(overlay, "patches", block_with("NVIDIA_DRIVER_ROOT"))["containers"][0]["env"]
    assert before == {v["name"] for v in after}
    assert {"name": "NVIDIA_DRIVER_ROOT", "value": "/host"} in after


def test_host_tools_can_be_added(overlay: Path) -> None:
    """The component can be added to the plain variant."""
    file = overlay / "kustomization.yaml"
    file.write_text(file.read_text().replace("../deploy/gpu-operator", "../deploy"))
    pod = extended(overlay, "components", components_with("host-tools"))
    assert "/host" in [m["mountPath"] for m in pod["containers"][0]["volumeMounts"]]


def test_own_gpu_clients_can_be_added(overlay: Path) -> None:
    """The list of the page is one that agents understand, and the settings of the page bring it to them."""
    file = overlay / "clients.yaml"
    file.write_text(HERE_DOCUMENTS["clients.yaml"])
    shipped = load_clients()
    assert ["cloud-device-plugin", "monitor"] == [c.name for c in load_clients(file) if c not in shipped]
    block = yaml.safe_load(block_with("configMapGenerator"))
    extended(overlay, "configMapGenerator", yaml.safe_dump(block["configMapGenerator"]))
    pod = extended(overlay, "patches", yaml.safe_dump(block["patches"]))
    (agent,) = pod["containers"]
    (path,) = (v["value"] for v in agent["env"] if v["name"] == "GPU_CLIENTS")
    (mount,) = (m for m in agent["volumeMounts"] if path == f"{m['mountPath']}/{file.name}")
    (volume,) = (v for v in pod["volumes"] if v["name"] == mount["name"])
    assert volume["configMap"]["name"].startswith("gpu-clients-")


def test_maintenance_leases_can_be_respected(overlay: Path) -> None:
    """The component says where the Leases are, and beside another variant's settings."""
    pod = extended(overlay, "components", components_with("medik8s"))
    environment = pod["containers"][0]["env"]
    assert {"name": "MAINTENANCE_LEASES", "value": "medik8s-leases"} in environment
    assert {"name": "NVIDIA_DRIVER_ROOT", "value": "/host/run/nvidia/driver"} in environment


def test_reboot_can_be_added(overlay: Path) -> None:
    """The component gives the agents a command, which the shell in the image understands, and no other right."""
    before = agent_of(overlay)["containers"][0]
    after = extended(overlay, "components", components_with("reboot"))["containers"][0]
    (added,) = (v for v in after["env"] if v not in before["env"])
    assert {"name": "REBOOT_COMMAND", "value": "sh -c 'kill -39 1'"} == added
    assert before["securityContext"] == after["securityContext"]
    assert ["sh", "-c", "kill -39 1"] == shlex.split(added["value"])
    assert signal.SIGRTMIN + 5 == 39


def test_pool_is_valid(tmp_path: Path) -> None:
    """The MIGConfig that the page begins with passes the command that it names."""
    (tmp_path / "pool.yaml").write_text(HERE_DOCUMENTS["pool.yaml"])
    result = CliRunner().invoke(program, ["validate", str(tmp_path / "pool.yaml")])
    assert 0 == result.exit_code, result.output


def test_files_that_are_named_exist() -> None:
    """Every path below deploy that the page names is there."""
    named = set(re.findall(r"deploy(?:/[\w.-]+)+", PAGE))
    assert named
    assert [] == sorted(path for path in named if not (DEPLOY.parent / path).exists())
