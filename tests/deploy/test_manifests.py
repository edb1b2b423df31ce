"""The manifests render, are valid, and agree with the programs that they start."""

from __future__ import annotations

import copy
from typing import Any

import click
import kubernetes_validate
import pytest

from mig_manager.cli.agent import agent
from mig_manager.cli.controller import controller
from mig_manager.controller.settings import AGENT_SELECTOR, LEASE_NAME
from mig_manager.kube.kinds import GROUP, MIG_NODE
from mig_manager.kube.kopf_shell import CRD_KIND
from mig_manager.sim.controlplane.programs import KUBERNETES_VERSION
from tests.deploy.manifests import VARIANTS, Manifest, find, pod_of, rendered

MINOR = KUBERNETES_VERSION.rpartition(".")[0]
WORKLOADS = (("DaemonSet", "agent", agent), ("Deployment", "controller", controller))


def test_validator_refuses_unknown_fields() -> None:
    """What the next test relies on: a misspelt field is an error."""
    wrong = copy.deepcopy(find("", "Deployment", "controller"))
    wrong["spec"]["template"]["spec"]["serviceAcountName"] = "controller"
    with pytest.raises(kubernetes_validate.ValidationError, match="serviceAcountName"):
        kubernetes_validate.validate(wrong, MINOR, strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_is_valid(variant: str) -> None:
    """Each object of each variant is what Kubernetes of the tested version knows, with no field more."""
    for manifest in rendered(variant):
        kubernetes_validate.validate(manifest, MINOR, strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_holds_both_kinds_and_both_programs(variant: str) -> None:
    """No variant leaves a part out."""
    names = {(m["kind"], m["metadata"]["name"]) for m in rendered(variant)}
    assert {
        ("CustomResourceDefinition", f"migconfigs.{GROUP}"),
        ("CustomResourceDefinition", f"{MIG_NODE.plural}.{GROUP}"),
        ("DaemonSet", "agent"),
        ("Deployment", "controller"),
    } <= names


@pytest.mark.parametrize(("kind", "name", "command"), WORKLOADS, ids=["agent", "controller"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variables_are_those_that_the_program_reads(variant: str, kind: str, name: str, command: click.Command) -> None:
    """The container starts the verb of its name; the program or NVIDIA's runtime reads every variable it is given."""
    container = pod_of(variant, kind, name)["containers"][0]
    assert [name] == container["args"]
    read = {p.envvar for p in command.params if isinstance(p, click.Option)}
    given = {v["name"] for v in container["env"]}
    runtime = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_MIG_CONFIG_DEVICES"}
    assert set() == given - read - runtime
    required = {p.envvar for p in command.params if p.required}
    assert set() == required - given


@pytest.mark.parametrize(("kind", "name", "command"), WORKLOADS, ids=["agent", "controller"])
def test_probes_ask_the_port_that_the_program_listens_on(kind: str, name: str, command: click.Command) -> None:
    """The liveness port in the environment is the port of the probes."""
    del command
    container = pod_of("", kind, name)["containers"][0]
    port = next(v["value"] for v in container["env"] if v["name"] == "LIVENESS_PORT")
    assert [{"name": "health", "containerPort": int(port)}] == container["ports"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert {"path": "/healthz", "port": "health"} == container[probe]["httpGet"]


def test_controller_finds_the_agents_by_their_labels() -> None:
    """The selector that the controller uses by default matches the agents' pods."""
    labels = find("", "DaemonSet", "agent")["spec"]["template"]["metadata"]["labels"]
    wanted = dict(term.split("=") for term in AGENT_SELECTOR.split(","))
    assert wanted.items() <= labels.items()


def test_roles_name_what_the_programs_ask_for() -> None:
    """Rules that are bound to names bind them to the Lease and the CustomResourceDefinition that are used."""
    assert [LEASE_NAME] == _rule(find("", "Role", "mig-manager-agent"), "leases")["resourceNames"]
    named = [r for r in find("", "Role", "mig-manager-controller")["rules"] if "resourceNames" in r]
    assert [[LEASE_NAME]] == [r["resourceNames"] for r in named]
    for role in ("mig-manager-agent", "mig-manager-controller"):
        rule = _rule(find("", "ClusterRole", role), CRD_KIND[2])
        assert [f"{MIG_NODE.plural}.{GROUP}"] == rule["resourceNames"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_role_has_a_wildcard(variant: str) -> None:
    """Least privilege is written out: no rule says "everything"."""
    for manifest in rendered(variant):
        if manifest["kind"] in ("Role", "ClusterRole"):
            for rule in manifest["rules"]:
                assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_agents_run_where_others_cannot() -> None:
    """The agent tolerates every taint, outlives pressure, and only it may change MIG layouts."""
    pod = pod_of("", "DaemonSet", "agent")
    assert [{"operator": "Exists"}] == pod["tolerations"]
    assert "system-node-critical" == pod["priorityClassName"]
    assert "nvidia" == pod["runtimeClassName"]
    security = pod["containers"][0]["securityContext"]
    assert {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH"]} == security["capabilities"]
    assert security["readOnlyRootFilesystem"]


def test_controller_has_no_privilege() -> None:
    """The controller is an ordinary user without capabilities, and nothing of the host is in its pod."""
    pod = pod_of("", "Deployment", "controller")
    assert pod["securityContext"]["runAsNonRoot"]
    assert {"drop": ["ALL"]} == pod["containers"][0]["securityContext"]["capabilities"]
    assert "volumes" not in pod


@pytest.mark.parametrize(("kind", "name"), [("DaemonSet", "agent"), ("Deployment", "controller")])
@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_written_to_is_a_volume(variant: str, kind: str, name: str) -> None:
    """Every mount has its volume, and every volume is mounted."""
    pod = pod_of(variant, kind, name)
    mounted = {m["name"] for m in pod["containers"][0].get("volumeMounts", ())}
    assert mounted == {v["name"] for v in pod.get("volumes", ())}


def test_host_tools_can_be_run() -> None:
    """With the GPU operator the driver's tools are reached: its root is mounted, chroot and mknod are allowed."""
    container = pod_of("gpu-operator", "DaemonSet", "agent")["containers"][0]
    root = next(v["value"] for v in container["env"] if v["name"] == "NVIDIA_DRIVER_ROOT")
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    assert any(root.startswith(f"{mount}/") for mount in mounts)
    assert {"SYS_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH", "SYS_CHROOT", "MKNOD"} == set(
        container["securityContext"]["capabilities"]["add"]
    )


def _rule(role: Manifest, resource: str) -> dict[str, Any]:
    (found,) = (r for r in role["rules"] if resource in r["resources"])
    return dict(found)
