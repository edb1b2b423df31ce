"""On a real API server: what is shipped is accepted as it is, and the two programs may do what they need and no more.

The control plane is one of its own, because the policy and the DaemonSet would concern the nodes of other tests.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from mig_manager.agent.names import MANAGER
from mig_manager.controller.settings import AGENT_SELECTOR, LEASE_NAME
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ClusterError
from mig_manager.kube.kinds import EVENT, MIG_NODE, NODE, POD
from mig_manager.sim.controlplane.access import Access, wait_until
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from tests.conftest import CRDS
from tests.deploy.events import OTHER, event_about, event_about_pod
from tests.deploy.manifests import DEPLOY, VARIANTS, find, rules_of

NAMESPACES = ("gpu-operator", "nvidia-device-plugin", "work")
NODES = ("n1", "n2")
PRODUCT = "mig-manager"

Question = tuple[str, str, str, str, str]
"""Verb, API group, resource (with subresource), namespace, name."""

AGENT_MAY: list[Question] = [
    ("get", "", "nodes", "", "n1"),
    ("patch", "", "nodes", "", "n1"),
    ("list", "migmanager.io", "mignodes", "", ""),
    ("watch", "migmanager.io", "mignodes", "", ""),
    ("get", "migmanager.io", "mignodes", "", "n1"),
    ("patch", "migmanager.io", "mignodes/status", "", "n1"),
    ("list", "", "pods", "", ""),
    ("create", "", "pods/eviction", OTHER, "p"),
    ("delete", "", "pods", "gpu-operator", "plugin"),
    ("get", "coordination.k8s.io", "leases", PRODUCT, LEASE_NAME),
    ("list", "resource.k8s.io", "resourceslices", "", ""),
    ("create", "", "events", "default", ""),
    ("patch", "", "events", "default", "e"),
    ("create", "", "events", OTHER, ""),
    ("get", "apps", "daemonsets", OTHER, "d"),
    ("watch", "apiextensions.k8s.io", "customresourcedefinitions", "", "mignodes.migmanager.io"),
]
AGENT_MAY_NOT: list[Question] = [
    ("list", "", "nodes", "", ""),
    ("delete", "", "nodes", "", "n1"),
    ("patch", "", "nodes/status", "", "n1"),
    ("patch", "migmanager.io", "mignodes", "", "n1"),
    ("create", "migmanager.io", "mignodes", "", ""),
    ("delete", "migmanager.io", "mignodes", "", "n1"),
    ("get", "migmanager.io", "migconfigs", "", "c"),
    ("list", "migmanager.io", "migconfigs", "", ""),
    ("delete", "", "pods", OTHER, "p"),
    ("delete", "", "pods", PRODUCT, "agent"),
    ("patch", "", "pods", OTHER, "p"),
    ("create", "", "pods", PRODUCT, ""),
    ("create", "", "pods/exec", OTHER, "p"),
    ("get", "", "secrets", PRODUCT, "s"),
    ("get", "coordination.k8s.io", "leases", PRODUCT, "another"),
    ("patch", "coordination.k8s.io", "leases", PRODUCT, LEASE_NAME),
    ("get", "coordination.k8s.io", "leases", "kube-system", LEASE_NAME),
    ("delete", "resource.k8s.io", "resourceslices", "", "s"),
    ("patch", "", "events", OTHER, "e"),
    ("get", "", "events", OTHER, "e"),
    ("list", "apps", "daemonsets", "", ""),
    ("watch", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("patch", "apps", "daemonsets", "gpu-operator", "d"),
]
CONTROLLER_MAY: list[Question] = [
    ("get", "migmanager.io", "migconfigs", "", "c"),
    ("watch", "migmanager.io", "migconfigs", "", ""),
    ("patch", "migmanager.io", "migconfigs/status", "", "c"),
    ("create", "migmanager.io", "mignodes", "", ""),
    ("patch", "migmanager.io", "mignodes", "", "n1"),
    ("delete", "migmanager.io", "mignodes", "", "n1"),
    ("get", "", "nodes", "", "n1"),
    ("watch", "", "nodes", "", ""),
    ("watch", "", "pods", PRODUCT, ""),
    ("watch", "", "namespaces", "", PRODUCT),
    ("create", "coordination.k8s.io", "leases", PRODUCT, ""),
    ("patch", "coordination.k8s.io", "leases", PRODUCT, LEASE_NAME),
    ("create", "", "events", "default", ""),
]
CONTROLLER_MAY_NOT: list[Question] = [
    ("patch", "", "nodes", "", "n1"),
    ("list", "", "pods", "", ""),
    ("list", "", "pods", OTHER, ""),
    ("create", "", "pods/eviction", OTHER, "p"),
    ("delete", "", "pods", PRODUCT, "agent"),
    ("patch", "migmanager.io", "mignodes/status", "", "n1"),
    ("patch", "migmanager.io", "migconfigs", "", "c"),
    ("delete", "migmanager.io", "migconfigs", "", "c"),
    ("patch", "coordination.k8s.io", "leases", PRODUCT, "another"),
    ("delete", "coordination.k8s.io", "leases", PRODUCT, LEASE_NAME),
    ("get", "", "secrets", PRODUCT, "s"),
    ("create", "", "pods", PRODUCT, ""),
]


@pytest.fixture(scope="module")
def deployed(programs: Programs) -> Iterator[Access]:
    """A cluster on which the GPU operator's variant was installed by the documented command, with two nodes."""
    with ControlPlane(programs, CRDS) as plane:
        access = plane.access
        for name in NAMESPACES:
            assert 201 == access.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0]
        runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
        assert 201 == access.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)[0]
        kubectl(access, "apply", "--server-side", "-k", str(DEPLOY / "gpu-operator"))
        admin = KubernetesCluster.from_kubeconfig("test", access.kubeconfig)
        for name in NODES:
            node = admin.create(NODE, {"metadata": {"name": name}})
            admin.create(
                MIG_NODE, {"metadata": {"name": name}, "spec": {"schema": 1, "nodeUID": node["metadata"]["uid"]}}
            )
            # In the client's place: a pod that some agent must leave alone unless it is on its node.
            admin.create(POD, pod(f"client-{name}", name), "gpu-operator")
            agent = pod(f"agent-{name}", name)
            agent["spec"]["serviceAccountName"] = "agent"
            admin.create(POD, agent, PRODUCT)
        stranger = agent_without_pod(access)
        wait_until("the policy to be in force", lambda: is_refused(stranger))
        yield access


def agent_without_pod(access: Access) -> KubernetesCluster:
    """Somebody with a token of the agents' account that no pod vouches for."""
    return KubernetesCluster.from_kubeconfig(MANAGER, access.kubeconfig_for_service_account(PRODUCT, "agent"))


def is_refused(stranger: KubernetesCluster) -> bool:
    try:
        stranger.patch(NODE, "n1", {"metadata": {"annotations": {"by": "nobody"}}})
    except ClusterError:
        return True
    return False


def kubectl(access: Access, *arguments: str) -> None:
    command = [str(find_kubectl()), f"--kubeconfig={access.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


def pod(name: str, node: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "none"}]
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}}


def allowed(access: Access, account: str, question: Question) -> bool:
    """Whether the ServiceAccount may; the question is put to the API server's authorizer."""
    verb, group, resource, namespace, name = question
    resource, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    spec = {
        "user": f"system:serviceaccount:{PRODUCT}:{account}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{PRODUCT}", "system:authenticated"],
        "resourceAttributes": attributes,
    }
    status, answer = access.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert 201 == status, answer
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_api_server_accepts_every_field(deployed: Access, variant: str) -> None:
    """A strict dry run of the whole variant passes: nothing is unknown, nothing is refused or warned of."""
    command = [str(find_kubectl()), f"--kubeconfig={deployed.kubeconfig}", "apply", "--server-side", "--dry-run=server"]
    done = subprocess.run(
        [*command, "--validate=strict", "-k", str(DEPLOY / variant)], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("question", AGENT_MAY, ids=" ".join)
def test_agent_may(deployed: Access, question: Question) -> None:
    """What the agent does, its account may do."""
    assert allowed(deployed, "agent", question)


@pytest.mark.parametrize("question", AGENT_MAY_NOT, ids=" ".join)
def test_agent_may_not(deployed: Access, question: Question) -> None:
    """What the agent never does, its account may not do."""
    assert not allowed(deployed, "agent", question)


@pytest.mark.parametrize("question", CONTROLLER_MAY, ids=" ".join)
def test_controller_may(deployed: Access, question: Question) -> None:
    """What the controller does, its account may do."""
    assert allowed(deployed, "controller", question)


@pytest.mark.parametrize("question", CONTROLLER_MAY_NOT, ids=" ".join)
def test_controller_may_not(deployed: Access, question: Question) -> None:
    """What the controller never does, its account may not do."""
    assert not allowed(deployed, "controller", question)


def agent_on(access: Access, node: str) -> KubernetesCluster:
    """The agent of a node, with the token that its pod has."""
    admin = KubernetesCluster.from_kubeconfig("test", access.kubeconfig)
    token = access.kubeconfig_for_service_account(PRODUCT, "agent", admin.get(POD, f"agent-{node}", PRODUCT))
    return KubernetesCluster.from_kubeconfig(MANAGER, token)


def test_agent_writes_its_own_node(deployed: Access) -> None:
    """The token of the pod on n1 may label n1, report its MIGNode's status, post Events and delete a client there."""
    agent = agent_on(deployed, "n1")
    agent.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/state": "ready"}}})
    agent.patch(MIG_NODE, "n1", {"status": {"observedGeneration": 1}}, subresource="status")
    agent.create(EVENT, event_about("n1"), "default")
    agent.delete(POD, "client-n1", "gpu-operator", grace_s=0)


def test_agent_tells_pods_that_they_are_evicted(deployed: Access) -> None:
    """It may post that one Event on a pod in any namespace, under its own node's name, and no other."""
    agent = agent_on(deployed, "n1")
    agent.create(EVENT, event_about_pod("n1"), OTHER)
    namesake = event_about_pod("n1", "Killing")
    namesake["involvedObject"]["name"] = "n1"
    for other in (event_about_pod("n2"), event_about_pod("n1", "Killing"), namesake):
        with pytest.raises(ClusterError, match="only report in its own name"):
            agent.create(EVENT, other, OTHER)


def test_agent_cannot_write_another_node(deployed: Access) -> None:
    """The same token is refused for n2, whatever it is that concerns n2."""
    agent = agent_on(deployed, "n1")
    with pytest.raises(ClusterError, match="only write its own node"):
        agent.patch(NODE, "n2", {"spec": {"unschedulable": True}})
    with pytest.raises(ClusterError, match="only write its own node"):
        agent.patch(MIG_NODE, "n2", {"status": {"observedGeneration": 1}}, subresource="status")
    with pytest.raises(ClusterError, match="only report in its own name"):
        agent.create(EVENT, event_about("n2"), "default")
    with pytest.raises(ClusterError, match="only delete pods of its own node"):
        agent.delete(POD, "client-n2", "gpu-operator")


def test_agent_cannot_rewrite_what_others_report(deployed: Access) -> None:
    """Events about n2 or of the kubelet are not the agent's on n1, neither as they are nor turned into its own."""
    admin = KubernetesCluster.from_kubeconfig("test", deployed.kubeconfig)
    kubelets = event_about("n1") | {"source": {"component": "kubelet", "host": "n1"}}
    for name, event in (("of-another", event_about("n2")), ("of-the-kubelet", kubelets)):
        admin.create(EVENT, event | {"metadata": {"name": name, "namespace": "default"}}, "default")
    agent = agent_on(deployed, "n1")
    for name in ("of-another", "of-the-kubelet"):
        with pytest.raises(ClusterError, match="only report in its own name"):
            agent.patch(EVENT, name, {"message": "all is well"}, "default")
    mine = {key: value for key, value in event_about("n1").items() if key != "metadata"}
    for name in ("of-another", "of-the-kubelet"):
        with pytest.raises(ClusterError, match="may not change what others report"):
            agent.patch(EVENT, name, {"involvedObject": mine["involvedObject"], "source": mine["source"]}, "default")


def test_agent_cannot_write_what_keeps_workloads_off_its_node(deployed: Access) -> None:
    """Labels under node-restriction.kubernetes.io are not its to add, change or remove; others beside them are."""
    admin = KubernetesCluster.from_kubeconfig("test", deployed.kubeconfig)
    agent, secure = agent_on(deployed, "n1"), "pci.node-restriction.kubernetes.io/zone"
    with pytest.raises(ClusterError, match="may not write labels under node-restriction"):
        agent.patch(NODE, "n1", {"metadata": {"labels": {secure: ""}}})
    admin.patch(NODE, "n1", {"metadata": {"labels": {secure: "a"}}})
    for value in ("b", None):
        with pytest.raises(ClusterError, match="may not write labels under node-restriction"):
            agent.patch(NODE, "n1", {"metadata": {"labels": {secure: value}}})
    agent.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/state": "ready"}}})
    admin.patch(NODE, "n1", {"metadata": {"labels": {secure: None}}})


def test_evictions_are_not_bound(deployed: Access) -> None:
    """The one write that no policy can tie to a node: what limits it, docs/security.md says."""
    admin = KubernetesCluster.from_kubeconfig("test", deployed.kubeconfig)
    uid = admin.create(POD, pod("far-away", "n2"), OTHER)["metadata"]["uid"]
    agent_on(deployed, "n1").evict(OTHER, "far-away", uid, dry_run=True)


def test_evictions_are_as_fast_as_service_accounts_may_be(deployed: Access) -> None:
    """Nothing else in a new cluster limits their rate; docs/security.md says how to give the agents less."""
    flow = deployed.request("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/service-accounts")[1]["spec"]
    assert "workload-low" == flow["priorityLevelConfiguration"]["name"]
    groups = {s["group"]["name"] for rule in flow["rules"] for s in rule["subjects"] if s["kind"] == "Group"}
    assert {"system:serviceaccounts"} == groups


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_write_is_bound(variant: str) -> None:
    """Whatever the agents' roles let them write is in the policy, evictions excepted."""
    policy = find(variant, "ValidatingAdmissionPolicy", "mig-manager-agent")
    verbs = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
    bound = {
        (group, resource, operation)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    written = {
        (group, resource, verbs[verb])
        for rule in rules_of(variant, "agent")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    assert {("", "pods/eviction", "CREATE")} == written - bound


def test_token_without_a_pod_writes_nothing(deployed: Access) -> None:
    """A token of the agent's account that no pod on a node vouches for is refused."""
    agent = agent_without_pod(deployed)
    assert "n1" == agent.get(NODE, "n1")["metadata"]["name"]
    with pytest.raises(ClusterError, match="must be that of a pod on a node"):
        agent.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/state": "ready"}}})


def test_policy_concerns_nobody_else(deployed: Access) -> None:
    """An administrator and the controller write as before."""
    admin = KubernetesCluster.from_kubeconfig("test", deployed.kubeconfig)
    admin.patch(NODE, "n2", {"metadata": {"labels": {"by": "admin"}}})
    account = deployed.kubeconfig_for_service_account(PRODUCT, "controller")
    controller = KubernetesCluster.from_kubeconfig("controller", account)
    patched = controller.patch(MIG_NODE, "n2", {"metadata": {"annotations": {"by": "controller"}}})
    assert "controller" == patched["metadata"]["annotations"]["by"]


def test_agents_come_to_gpu_nodes_only(deployed: Access) -> None:
    """Either label that says "NVIDIA GPU" brings an agent, tainted or not; a node without brings none."""
    admin = KubernetesCluster.from_kubeconfig("test", deployed.kubeconfig)
    for name, label in (("g1", "nvidia.com/gpu.present"), ("g2", "feature.node.kubernetes.io/pci-10de.present")):
        taint = {"key": "anything", "effect": "NoSchedule"}
        admin.create(NODE, {"metadata": {"name": name, "labels": {label: "true"}}, "spec": {"taints": [taint]}})

    def nodes_with_agent() -> set[str]:
        # These nodes have no room, so nothing is bound; the pod's affinity says where it belongs.
        pods = admin.list(POD, PRODUCT, labels=f"{AGENT_SELECTOR},controller-revision-hash").items
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = [p["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] for p in pods]
        return {t["matchFields"][0]["values"][0] for (t,) in terms}

    wait_until("agents on both GPU nodes", lambda: {"g1", "g2"} <= nodes_with_agent())
    assert {"g1", "g2"} == nodes_with_agent()
