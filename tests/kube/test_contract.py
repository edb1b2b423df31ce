"""What the Cluster port promises, held by the real API server and by the one in memory alike."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from mig_manager.kube import errors, events
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.kinds import (
    DAEMON_SET,
    EVENT,
    GROUP,
    LEASE,
    MIG_CONFIG,
    MIG_NODE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_SLICE,
    Kind,
)
from mig_manager.kube.memory import MemoryCluster, Store
from mig_manager.kube.ownership import is_tracked, owners
from mig_manager.kube.port import Cluster, Object, PatchType
from mig_manager.sim.controlplane.access import Access, wait_until
from mig_manager.sim.controlplane.kubectl import find_kubectl

NS = "default"
UNSCHEDULABLE = ("spec", "unschedulable")


@dataclass
class World:
    """One implementation under test, a second client of it under another name, and names that nobody else uses."""

    cluster: Cluster
    person: Cluster
    collect_garbage: Callable[[], None]
    make_namespace: Callable[[str], None]
    terminate: Callable[[str], None]
    """Begin to delete a namespace."""
    kubectl: Callable[[str, str], None]
    """``kubectl cordon`` or ``uncordon`` a node."""
    salt: str

    def name(self, stem: str) -> str:
        """A name of this test alone."""
        return f"{stem}-{self.salt}"

    def node(self, stem: str = "n") -> Object:
        """A Node, labelled, so that the server tracks the owners of its fields."""
        return self.cluster.create(NODE, {"metadata": {"name": self.name(stem), "labels": {"salt": self.salt}}})

    def mig_node(self, stem: str = "n", **metadata: object) -> Object:
        """A MIGNode."""
        body = {"metadata": {"name": self.name(stem), **metadata}, "spec": {"schema": 1, "nodeUID": "u"}}
        return self.cluster.create(MIG_NODE, body)

    def pod(self, stem: str = "p", *, node: str | None = None, ready: bool = False, **labels: str) -> Object:
        """A pod, on a node and ready if asked for."""
        spec: Object = {"containers": [{"name": "c", "image": "none"}], **({"nodeName": node} if node else {})}
        metadata = {"name": self.name(stem), "labels": {"salt": self.salt, **labels}}
        pod = self.cluster.create(POD, {"metadata": metadata, "spec": spec}, NS)
        if ready:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            pod = self.cluster.patch(POD, self.name(stem), {"status": status}, NS, subresource="status")
        return pod

    def budget(self, stem: str, minimum: int, **labels: str) -> None:
        """A budget for the pods of this test with these labels."""
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"salt": self.salt, **labels}}}
        self.cluster.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": self.name(stem)}, "spec": spec}, NS)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.cluster)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    salt = uuid.uuid4().hex[:8]
    if request.param == "memory":
        store = Store()
        cluster = MemoryCluster(store, "mig-manager-test")
        somebody = MemoryCluster(store, "kubectl-cordon")

        def patch_like_kubectl(verb: str, name: str) -> None:
            wanted = verb == "cordon"
            kubectl = MemoryCluster(store, "kubectl")
            if bool(kubectl.get(NODE, name)["spec"].get("unschedulable")) is not wanted:
                kubectl.patch(NODE, name, {"spec": {"unschedulable": wanted or None}}, patch_type=PatchType.STRATEGIC)

        yield World(
            cluster,
            somebody,
            cluster.collect_garbage,
            lambda _: None,
            store.terminating.add,
            patch_like_kubectl,
            salt,
        )
        return
    access: Access = request.getfixturevalue("control_plane")
    real = KubernetesCluster.from_kubeconfig("mig-manager-test", access.kubeconfig)
    person = KubernetesCluster.from_kubeconfig("kubectl-cordon", access.kubeconfig)

    def make_namespace(name: str) -> None:
        assert 201 == access.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0]
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until("its ServiceAccount", lambda: access.request("GET", path)[0] == 200, 30)

    def terminate(name: str) -> None:
        assert 200 == access.request("DELETE", f"/api/v1/namespaces/{name}")[0]

    def kubectl(verb: str, name: str) -> None:
        subprocess.run([str(find_kubectl()), f"--kubeconfig={access.kubeconfig}", verb, name], check=True)

    yield World(real, person, lambda: None, make_namespace, terminate, kubectl, salt)
    for kind in (POD, POD_DISRUPTION_BUDGET, DAEMON_SET, LEASE, NODE, MIG_NODE, MIG_CONFIG):
        for left in real.list(kind).items:
            if left["metadata"]["name"].endswith(salt):
                namespace = left["metadata"].get("namespace")
                real.delete(kind, left["metadata"]["name"], namespace, grace_s=0)
    real.close()
    person.close()


def eventually(check: Callable[[], bool]) -> None:
    wait_until("the cluster to get there", check, 30)


def gone(world: World, kind: Kind, name: str, namespace: str | None = None) -> bool:
    try:
        world.cluster.get(kind, name, namespace)
    except errors.NotFoundError:
        return True
    return False


class TestReading:
    """Objects and lists."""

    def test_what_is_created_is_read_back(self, world: World) -> None:
        """An object has name, uid, resourceVersion, apiVersion and kind, whoever reads it."""
        created = world.node()
        read = world.cluster.get(NODE, world.name("n"))
        assert created["metadata"]["uid"] == read["metadata"]["uid"]
        assert ("v1", "Node") == (read["apiVersion"], read["kind"])
        assert read["metadata"]["resourceVersion"]

    def test_missing_object(self, world: World) -> None:
        """The error names the act and the object."""
        with pytest.raises(errors.NotFoundError, match=r"^reading Node none: .*not found"):
            world.cluster.get(NODE, "none")

    def test_name_is_taken(self, world: World) -> None:
        """A second object of the same name is refused, as a kind of conflict."""
        world.node()
        with pytest.raises(errors.AlreadyExistsError):
            world.node()

    def test_answers_are_copies(self, world: World) -> None:
        """Changing an answer changes nothing in the cluster."""
        world.node()
        world.cluster.get(NODE, world.name("n"))["metadata"]["labels"] = {"changed": "yes"}
        assert "changed" not in world.cluster.get(NODE, world.name("n"))["metadata"].get("labels", {})

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("tier=a", {"p1"}),
            ("tier!=a", {"p2", "p3"}),
            ("tier in (a, b)", {"p1", "p2"}),
            ("tier notin (a)", {"p2", "p3"}),
            ("tier", {"p1", "p2"}),
            ("!tier", {"p3"}),
        ],
    )
    def test_label_selectors(self, world: World, selector: str, expected: set[str]) -> None:
        """Equality, sets and existence, all of them needed."""
        world.pod("p1", tier="a")
        world.pod("p2", tier="b")
        world.pod("p3")
        found = world.cluster.list(POD, labels=f"salt={world.salt},{selector}").items
        assert {world.name(stem) for stem in expected} == {pod["metadata"]["name"] for pod in found}

    def test_field_selectors(self, world: World) -> None:
        """Pods are found by node and phase."""
        node = world.node()["metadata"]["name"]
        world.pod("p1", node=node, ready=True)
        world.pod("p2", node=node)
        world.pod("p3")
        running = world.cluster.list(POD, fields=f"spec.nodeName={node},status.phase!=Pending").items
        assert [world.name("p1")] == [pod["metadata"]["name"] for pod in running]
        on_node = world.cluster.list(POD, NS, fields=f"spec.nodeName={node}").items
        assert [world.name("p1"), world.name("p2")] == [pod["metadata"]["name"] for pod in on_node]

    def test_list_has_a_version(self, world: World) -> None:
        """A list says at which version of the cluster it was true, which is not before what it contains."""
        created = world.node()
        listing = world.cluster.list(NODE)
        assert int(listing.resource_version) >= int(created["metadata"]["resourceVersion"])

    def test_pages_are_a_list(self, world: World) -> None:
        """Page by page comes what the list has in one, all of it at one version."""
        names = {world.node(stem)["metadata"]["name"] for stem in ("a", "b")}
        pages = list(world.cluster.pages(NODE))
        assert names <= {item["metadata"]["name"] for page in pages for item in page.items}
        assert 1 == len({page.resource_version for page in pages})


class TestMergePatch:
    """JSON merge patches, which the project's own kinds know."""

    def test_none_removes(self, world: World) -> None:
        """A label set to None is gone, others stay."""
        world.mig_node(labels={"a": "1", "b": "2"})
        changed = world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"labels": {"a": None, "c": "3"}}})
        assert {"b": "2", "c": "3"} == changed["metadata"]["labels"]

    def test_old_version_is_a_conflict(self, world: World) -> None:
        """With the resourceVersion of an older read the patch is refused and changes nothing."""
        old = world.mig_node()["metadata"]["resourceVersion"]
        world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"labels": {"a": "1"}}})
        with pytest.raises(errors.ConflictError, match=r"^patching MIGNode"):
            world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"resourceVersion": old, "labels": {"a": "2"}}})
        assert {"a": "1"} == world.cluster.get(MIG_NODE, world.name("n"))["metadata"]["labels"]

    def test_old_version_is_a_conflict_for_status_too(self, world: World) -> None:
        """The same holds for the status subresource."""
        old = world.mig_node()["metadata"]["resourceVersion"]
        world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"labels": {"a": "1"}}})
        patch = {"metadata": {"resourceVersion": old}, "status": {"observedGeneration": 1}}
        with pytest.raises(errors.ConflictError):
            world.cluster.patch(MIG_NODE, world.name("n"), patch, subresource="status")
        assert "status" not in world.cluster.get(MIG_NODE, world.name("n"))

    def test_current_version_is_accepted(self, world: World) -> None:
        """With the resourceVersion of the last answer the patch goes through, and the version moves on."""
        current = world.mig_node()["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": current}, "status": {"observedGeneration": 1}}
        changed = world.cluster.patch(MIG_NODE, world.name("n"), patch, subresource="status")
        assert 1 == changed["status"]["observedGeneration"]
        assert current != changed["metadata"]["resourceVersion"]

    def test_other_uid_is_a_conflict(self, world: World) -> None:
        """A patch that names the uid applies to that very object, not to a later one of the same name."""
        old = world.node()["metadata"]["uid"]
        world.cluster.delete(NODE, world.name("n"))
        world.node()
        with pytest.raises(errors.ConflictError):
            world.cluster.patch(NODE, world.name("n"), {"metadata": {"uid": old, "labels": {"a": "1"}}})

    def test_no_change_makes_no_version(self, world: World) -> None:
        """A patch that changes nothing leaves the resourceVersion as it was."""
        before = world.mig_node(labels={"a": "1"})
        after = world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"labels": {"a": "1"}}})
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    def test_generation_counts_spec_changes_only(self, world: World) -> None:
        """Labels and status do not move metadata.generation, a change of spec does."""
        name = world.name("n")
        assert 1 == world.mig_node()["metadata"]["generation"]
        world.cluster.patch(MIG_NODE, name, {"metadata": {"labels": {"a": "1"}}})
        status = {"status": {"observedGeneration": 1}}
        assert 1 == world.cluster.patch(MIG_NODE, name, status, subresource="status")["metadata"]["generation"]
        assert 2 == world.cluster.patch(MIG_NODE, name, {"spec": {"nodeUID": "v"}})["metadata"]["generation"]

    def test_spec_and_status_are_apart(self, world: World) -> None:
        """The object ignores a status, the subresource everything but the status."""
        name = world.name("n")
        world.mig_node()
        both = {"metadata": {"labels": {"a": "1"}}, "spec": {"nodeUID": "v"}, "status": {"observedGeneration": 7}}
        by_status = world.cluster.patch(MIG_NODE, name, both, subresource="status")
        assert ("u", 7) == (by_status["spec"]["nodeUID"], by_status["status"]["observedGeneration"])
        assert "labels" not in by_status["metadata"]
        both["status"] = {"observedGeneration": 8}
        by_object = world.cluster.patch(MIG_NODE, name, both)
        assert ("v", 7) == (by_object["spec"]["nodeUID"], by_object["status"]["observedGeneration"])

    def test_a_node_is_created_with_its_status(self, world: World) -> None:
        """Unlike others a Node keeps the status it is created with; a pod begins as Pending."""
        body = {"metadata": {"name": world.name("n")}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
        assert {"nvidia.com/gpu": "8"} == world.cluster.create(NODE, body)["status"]["allocatable"]
        metadata = {"name": world.name("p")}
        spec = {"containers": [{"name": "c", "image": "none"}]}
        pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        assert "Pending" == world.cluster.create(POD, pod, NS)["status"]["phase"]

    def test_uid_and_times_are_the_servers(self, world: World) -> None:
        """What a client says about them at creation does not count."""
        created = world.mig_node(uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7)["metadata"]
        assert "mine" != created["uid"]
        assert "2001-01-01T00:00:00Z" != created["creationTimestamp"]
        assert 1 == created["generation"]

    def test_a_status_that_is_removed_is_gone(self, world: World) -> None:
        """None as status removes it, by the subresource alone."""
        name = world.name("n")
        world.mig_node()
        world.cluster.patch(MIG_NODE, name, {"status": {"observedGeneration": 1}}, subresource="status")
        assert {"observedGeneration": 1} == world.cluster.patch(MIG_NODE, name, {"status": None})["status"]
        assert not world.cluster.patch(MIG_NODE, name, {"status": None}, subresource="status").get("status")

    def test_names_are_fixed(self, world: World) -> None:
        """A patch cannot rename, nor go to a subresource that is not there."""
        world.mig_node()
        with pytest.raises(errors.InvalidError):
            world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"name": "other"}})
        with pytest.raises(errors.NotFoundError):
            world.cluster.patch(MIG_NODE, world.name("n"), {"spec": {}}, subresource="scale")

    def test_status_is_dropped_at_creation(self, world: World) -> None:
        """A custom object is created without status, whatever the body says."""
        body = {
            "metadata": {"name": world.name("n")},
            "spec": {"schema": 1, "nodeUID": "u"},
            "status": {"observedGeneration": 1},
        }
        assert "status" not in world.cluster.create(MIG_NODE, body)

    def test_unknown_fields_are_refused(self, world: World) -> None:
        """A field that the schema does not know is an error, not silently dropped, in spec, status and at creation."""
        name = world.name("n")
        world.mig_node()
        for patch, subresource in (({"spec": {"wrong": 1}}, None), ({"status": {"wrong": 1}}, "status")):
            with pytest.raises(errors.InvalidError, match="wrong"):
                world.cluster.patch(MIG_NODE, name, patch, subresource=subresource)
        with pytest.raises(errors.InvalidError, match="wrong"):
            world.cluster.create(MIG_NODE, {"metadata": {"name": "x"}, "spec": {"wrong": 1}})

    def test_values_that_the_schema_refuses(self, world: World) -> None:
        """A wrong type, a missing field and a broken rule are Invalid."""
        world.mig_node()
        with pytest.raises(errors.InvalidError, match="schema"):
            world.cluster.patch(MIG_NODE, world.name("n"), {"spec": {"schema": "one"}})
        with pytest.raises(errors.InvalidError, match="nodeUID"):
            world.cluster.patch(MIG_NODE, world.name("n"), {"spec": {"nodeUID": None}})
        with pytest.raises(errors.InvalidError, match="at least one label"):
            world.cluster.create(
                MIG_CONFIG,
                {"metadata": {"name": world.name("c")}, "spec": {"nodeSelector": {}, "profile": "all-balanced"}},
            )

    def test_defaults_are_filled_in(self, world: World) -> None:
        """What the schema gives a default is there in every answer."""
        spec = {"nodeSelector": {"matchLabels": {"pool": world.salt}}, "profile": "all-balanced"}
        config = world.cluster.create(MIG_CONFIG, {"metadata": {"name": world.name("c")}, "spec": spec})
        assert 1 == config["spec"]["disruption"]["maxUnavailable"]
        assert config == world.cluster.get(MIG_CONFIG, world.name("c"))

    def test_strategic_merge_is_not_for_custom_kinds(self, world: World) -> None:
        """The project's own kinds know no strategic merge patch."""
        world.mig_node()
        with pytest.raises(errors.InvalidError):
            world.cluster.patch(MIG_NODE, world.name("n"), {"spec": {}}, patch_type=PatchType.STRATEGIC)

    def test_lease_is_compare_and_swap(self, world: World) -> None:
        """Of two that take a Lease from the same read, one gets it and the other a conflict."""
        name = world.name("lease")
        lease = world.cluster.create(LEASE, {"metadata": {"name": name}, "spec": {"holderIdentity": "a"}}, NS)
        version = lease["metadata"]["resourceVersion"]

        def take(who: str) -> Object:
            patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": who}}
            return world.cluster.patch(LEASE, name, patch, NS)

        assert "b" == take("b")["spec"]["holderIdentity"]
        with pytest.raises(errors.ConflictError):
            take("c")


class TestNodePatch:
    """Strategic merge and JSON patches on Nodes."""

    def test_old_version_is_a_conflict(self, world: World) -> None:
        """A strategic merge patch obeys resourceVersion as well."""
        old = world.node()["metadata"]["resourceVersion"]
        world.cluster.patch(NODE, world.name("n"), {"metadata": {"labels": {"a": "1"}}})
        patch = {"metadata": {"resourceVersion": old}, "spec": {"unschedulable": True}}
        with pytest.raises(errors.ConflictError):
            world.cluster.patch(NODE, world.name("n"), patch, patch_type=PatchType.STRATEGIC)

    def test_conditions_merge_by_type(self, world: World) -> None:
        """A patch with one condition leaves the others."""
        world.node()
        for kind, status in (("Ready", "True"), ("Mine", "True"), ("Mine", "False")):
            patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
            changed = world.cluster.patch(
                NODE, world.name("n"), patch, subresource="status", patch_type=PatchType.STRATEGIC
            )
        states = {condition["type"]: condition["status"] for condition in changed["status"]["conditions"]}
        assert ("True", "False") == (states["Ready"], states["Mine"])

    def test_merge_patch_replaces_conditions(self, world: World) -> None:
        """A JSON merge patch knows no keys: the list is what the patch says."""
        world.node()
        for kind in ("A", "B"):
            patch = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
            changed = world.cluster.patch(NODE, world.name("n"), patch, subresource="status")
        assert ["B"] == [condition["type"] for condition in changed["status"]["conditions"]]

    def test_taints_are_replaced(self, world: World) -> None:
        """Even a strategic merge patch replaces taints: they have no merge key."""
        world.node()
        for key in ("a", "b"):
            patch = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
            changed = world.cluster.patch(NODE, world.name("n"), patch, patch_type=PatchType.STRATEGIC)
        assert ["b"] == [taint["key"] for taint in changed["spec"]["taints"]]

    def test_json_patch_is_guarded_by_test(self, world: World) -> None:
        """Operations apply if the test holds, and not at all if it does not."""
        name = world.name("n")
        world.cluster.create(NODE, {"metadata": {"name": name, "labels": {"x/y": "1"}}})
        edit = [
            {"op": "test", "path": "/metadata/labels/x~1y", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"},
        ]
        changed = world.cluster.patch(NODE, name, edit, patch_type=PatchType.JSON)
        assert "2" == changed["metadata"]["labels"]["x/y"]
        with pytest.raises(errors.InvalidError):
            world.cluster.patch(NODE, name, edit, patch_type=PatchType.JSON)

    def test_node_status_takes_no_spec(self, world: World) -> None:
        """The status subresource of a Node leaves the spec, and the Node leaves the status."""
        name = world.name("n")
        world.node()
        patch = {"spec": {"unschedulable": True}, "status": {"allocatable": {"nvidia.com/mig-1g.10gb": "7"}}}
        by_status = world.cluster.patch(NODE, name, patch, subresource="status")
        assert "unschedulable" not in by_status["spec"]
        assert {"nvidia.com/mig-1g.10gb": "7"} == by_status["status"]["allocatable"]
        patch["status"] = {"allocatable": {"nvidia.com/mig-1g.10gb": "0"}}
        by_object = world.cluster.patch(NODE, name, patch)
        assert by_object["spec"]["unschedulable"]
        assert {"nvidia.com/mig-1g.10gb": "7"} == by_object["status"]["allocatable"]


class TestOwnership:
    """Who made a Node unschedulable, by managedFields: rule A8 of the grant protocol rests on it."""

    def cordon(self, cluster: Cluster, world: World, value: bool | None = True) -> Object:
        """Set ``spec.unschedulable`` as that client."""
        return cluster.patch(NODE, world.name("n"), {"spec": {"unschedulable": value}})

    def test_a_cordon_is_owned_by_who_made_it(self, world: World) -> None:
        """After our patch we own the field."""
        world.node()
        assert frozenset() == owners(world.cluster.get(NODE, world.name("n")), *UNSCHEDULABLE)
        assert {"mig-manager-test"} == owners(self.cordon(world.cluster, world), *UNSCHEDULABLE)

    def test_cordon_over_a_cordon_changes_nothing(self, world: World) -> None:
        """Somebody else's patch with the same value leaves the owner and the version."""
        world.node()
        self.cordon(world.cluster, world)
        assert {"mig-manager-test"} == owners(self.cordon(world.person, world), *UNSCHEDULABLE)

        def unchanged() -> bool:
            first, second = (self.cordon(world.person, world)["metadata"]["resourceVersion"] for _ in range(2))
            return bool(first == second)

        # A new Node is still being annotated and tainted by the controllers of a real cluster.
        eventually(unchanged)

    def test_uncordon_leaves_no_owner(self, world: World) -> None:
        """Removing the field, or setting it to false, leaves it without owner and without value."""
        world.node()
        for value in (None, False):
            self.cordon(world.cluster, world)
            node = self.cordon(world.person, world, value)
            assert "unschedulable" not in node["spec"]
            assert frozenset() == owners(node, *UNSCHEDULABLE)

    def test_a_persons_cordon_stays_theirs(self, world: World) -> None:
        """A cordon after an uncordon belongs to who made it, and our blind patch over it does not take it back."""
        world.node()
        self.cordon(world.cluster, world)
        self.cordon(world.person, world, None)
        assert {"kubectl-cordon"} == owners(self.cordon(world.person, world), *UNSCHEDULABLE)
        assert {"kubectl-cordon"} == owners(self.cordon(world.cluster, world), *UNSCHEDULABLE)

    def test_an_annotation_is_owned_by_who_gave_it_its_value(self, world: World) -> None:
        """Who repeats the value owns nothing; who changes it does; a removed one that comes back is its bringer's."""
        name, path = f"{GROUP}/note", ("metadata", "annotations", f"{GROUP}/note")

        def note(cluster: Cluster, value: str | None) -> frozenset[str]:
            body = {"metadata": {"annotations": {name: value}}}
            return owners(cluster.patch(NODE, world.name("n"), body), *path)

        world.node()
        assert {"mig-manager-test"} == note(world.cluster, "true")
        assert {"mig-manager-test"} == note(world.person, "true")
        assert {"kubectl-cordon"} == note(world.person, "false")
        assert {"mig-manager-test"} == note(world.cluster, "true")
        assert frozenset() == note(world.person, None)
        assert {"kubectl-cordon"} == note(world.person, "true")
        assert {"kubectl-cordon"} == note(world.cluster, "true")

    def test_kubectl_cordon_over_ours_changes_nothing(self, world: World) -> None:
        """Kubectl sees that the node is cordoned and sends nothing; the field stays ours."""
        world.node()
        self.cordon(world.cluster, world)
        world.kubectl("cordon", world.name("n"))
        assert {"mig-manager-test"} == owners(world.cluster.get(NODE, world.name("n")), *UNSCHEDULABLE)

    def test_kubectl_uncordon_lifts_ours(self, world: World) -> None:
        """The field is gone and nobody's; what else we wrote in the same patch stays."""
        world.node()
        note = {"metadata": {"annotations": {"note": "ours"}}, "spec": {"unschedulable": True}}
        world.cluster.patch(NODE, world.name("n"), note)
        world.kubectl("uncordon", world.name("n"))
        node = world.cluster.get(NODE, world.name("n"))
        assert "unschedulable" not in node["spec"]
        assert frozenset() == owners(node, *UNSCHEDULABLE)
        assert "ours" == node["metadata"]["annotations"]["note"]

    def test_kubectl_cordon_is_kubectls(self, world: World) -> None:
        """A cordon by kubectl, after it has lifted ours, is not ours, and our patch over it does not make it ours."""
        world.node()
        self.cordon(world.cluster, world)
        for verb in ("uncordon", "cordon"):
            world.kubectl(verb, world.name("n"))
        theirs = owners(world.cluster.get(NODE, world.name("n")), *UNSCHEDULABLE)
        assert {"kubectl"} == theirs
        assert theirs == owners(self.cordon(world.cluster, world), *UNSCHEDULABLE)

    def test_our_uncordon_leaves_no_owner_and_ends_kubectls(self, world: World) -> None:
        """By the server anybody's patch lifts anybody's cordon: it is ours to look whose it is first."""
        world.node()
        world.kubectl("cordon", world.name("n"))
        node = self.cordon(world.cluster, world, None)
        assert "unschedulable" not in node["spec"]
        assert frozenset() == owners(node, *UNSCHEDULABLE)

    def test_a_node_of_nothing_but_a_name_is_not_tracked(self, world: World) -> None:
        """The server keeps no record of owners for an object created without any field, and no patch starts one."""
        node = world.cluster.create(NODE, {"metadata": {"name": world.name("n")}})
        assert not is_tracked(node)
        assert not is_tracked(self.cordon(world.cluster, world))


class TestDeletion:
    """Deleting objects and ending pods."""

    def test_other_uid_is_a_conflict(self, world: World) -> None:
        """With the uid of another object nothing is deleted."""
        world.mig_node()
        with pytest.raises(errors.ConflictError, match=r"^deleting MIGNode"):
            world.cluster.delete(MIG_NODE, world.name("n"), uid="00000000-0000-4000-8000-ffffffffffff")
        assert world.cluster.get(MIG_NODE, world.name("n"))

    def test_old_version_is_a_conflict(self, world: World) -> None:
        """With an old resourceVersion nothing is deleted, with the current one it is."""
        old = world.mig_node()["metadata"]
        changed = world.cluster.patch(MIG_NODE, world.name("n"), {"metadata": {"labels": {"a": "1"}}})["metadata"]
        with pytest.raises(errors.ConflictError):
            world.cluster.delete(MIG_NODE, world.name("n"), uid=old["uid"], resource_version=old["resourceVersion"])
        world.cluster.delete(MIG_NODE, world.name("n"), uid=changed["uid"], resource_version=changed["resourceVersion"])
        assert gone(world, MIG_NODE, world.name("n"))

    def test_a_pod_on_a_node_ends_gracefully(self, world: World) -> None:
        """It stays until its grace period is over, as its deletionTimestamp says, or until somebody forces it."""
        node = world.node()["metadata"]["name"]
        world.pod(node=node, ready=True)
        world.cluster.delete(POD, world.name("p"), NS, grace_s=20)
        metadata = world.cluster.get(POD, world.name("p"), NS)["metadata"]
        assert 20 == metadata["deletionGracePeriodSeconds"]
        created, end = (datetime.fromisoformat(metadata[key]) for key in ("creationTimestamp", "deletionTimestamp"))
        assert timedelta(seconds=20) <= end - created
        world.cluster.delete(POD, world.name("p"), NS, grace_s=5)
        sooner = world.cluster.get(POD, world.name("p"), NS)["metadata"]["deletionTimestamp"]
        assert end - timedelta(seconds=15) == datetime.fromisoformat(sooner)
        world.cluster.delete(POD, world.name("p"), NS, grace_s=0)
        assert gone(world, POD, world.name("p"), NS)

    def test_a_dry_run_deletes_nothing(self, world: World) -> None:
        """The object is as it was, and one that is gone or another is told from it."""
        node = world.node()["metadata"]["name"]
        pod = world.pod(node=node, ready=True)
        world.cluster.delete(POD, world.name("p"), NS, uid=pod["metadata"]["uid"], dry_run=True)
        assert pod == world.cluster.get(POD, world.name("p"), NS)
        with pytest.raises(errors.ConflictError):
            world.cluster.delete(POD, world.name("p"), NS, uid="00000000-0000-4000-8000-ffffffffffff", dry_run=True)
        with pytest.raises(errors.NotFoundError, match=r"^deleting Pod default/none"):
            world.cluster.delete(POD, "none", NS, dry_run=True)

    def test_a_pod_on_no_node_goes_at_once(self, world: World) -> None:
        """Nobody would end it."""
        world.pod()
        world.cluster.delete(POD, world.name("p"), NS)
        assert gone(world, POD, world.name("p"), NS)

    def test_owned_objects_go_with_their_owner(self, world: World) -> None:
        """A MIGNode owned by its Node is collected after the Node is gone."""
        node = world.node()
        owner = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
        world.mig_node(ownerReferences=[owner])
        world.cluster.delete(NODE, world.name("n"))

        def collected() -> bool:
            world.collect_garbage()
            return gone(world, MIG_NODE, world.name("n"))

        eventually(collected)


class TestEviction:
    """Evictions and PodDisruptionBudgets."""

    def blocked(self, world: World, stem: str, uid: str) -> bool:
        """Whether a dry run says that the pod cannot be evicted."""
        try:
            world.cluster.evict(NS, world.name(stem), uid, dry_run=True)
        except errors.BlockedError:
            return True
        return False

    def test_without_a_budget_a_pod_is_evicted(self, world: World) -> None:
        """The pod ends gracefully, with the grace period asked for."""
        node = world.node()["metadata"]["name"]
        uid = world.pod(node=node, ready=True)["metadata"]["uid"]
        world.cluster.evict(NS, world.name("p"), uid, grace_s=7)
        assert 7 == world.cluster.get(POD, world.name("p"), NS)["metadata"]["deletionGracePeriodSeconds"]

    def test_a_dry_run_changes_nothing(self, world: World) -> None:
        """The pod is as it was."""
        node = world.node()["metadata"]["name"]
        pod = world.pod(node=node, ready=True)
        world.cluster.evict(NS, world.name("p"), pod["metadata"]["uid"], dry_run=True)
        assert pod == world.cluster.get(POD, world.name("p"), NS)

    def test_missing_pod(self, world: World) -> None:
        """An eviction of a pod that is gone says so."""
        with pytest.raises(errors.NotFoundError, match=r"^evicting Pod default/none"):
            world.cluster.evict(NS, "none", "00000000-0000-4000-8000-ffffffffffff")

    def test_another_pod_of_the_name_is_spared(self, world: World) -> None:
        """With the uid of an earlier pod nobody is evicted."""
        node = world.node()["metadata"]["name"]
        world.pod(node=node, ready=True)
        with pytest.raises(errors.ConflictError):
            world.cluster.evict(NS, world.name("p"), "00000000-0000-4000-8000-ffffffffffff")
        assert "deletionTimestamp" not in world.cluster.get(POD, world.name("p"), NS)["metadata"]

    def test_a_budget_is_kept(self, world: World) -> None:
        """Of two pods with minAvailable 1 one goes, then the other is blocked, dry run or not."""
        node = world.node()["metadata"]["name"]
        first = world.pod("p1", node=node, ready=True)["metadata"]["uid"]
        second = world.pod("p2", node=node, ready=True)["metadata"]["uid"]
        world.budget("b", 1)
        eventually(lambda: not self.blocked(world, "p1", first))
        world.cluster.evict(NS, world.name("p1"), first)
        eventually(lambda: self.blocked(world, "p2", second))
        for dry_run in (True, False):
            with pytest.raises(errors.BlockedError, match=r"disruption budget b-.* needs 1 healthy pods and has 1"):
                world.cluster.evict(NS, world.name("p2"), second, dry_run=dry_run)
        assert "deletionTimestamp" not in world.cluster.get(POD, world.name("p2"), NS)["metadata"]

    def test_two_budgets_block(self, world: World) -> None:
        """A pod that two budgets match cannot be evicted; that is blocked, not broken."""
        node = world.node()["metadata"]["name"]
        uid = world.pod(node=node, ready=True)["metadata"]["uid"]
        world.budget("b1", 0)
        world.budget("b2", 0)

        def refused() -> bool:
            try:
                world.cluster.evict(NS, world.name("p"), uid, dry_run=True)
            except errors.BlockedError as error:
                return "more than one PodDisruptionBudget" in error.text
            return False

        eventually(refused)

    def test_namespace_that_is_going(self, world: World) -> None:
        """In a namespace that is being deleted nothing is created, an eviction neither; what is there goes with it."""
        spec = {"containers": [{"name": "c", "image": "none"}], "nodeName": world.node()["metadata"]["name"]}
        metadata = {"name": "p", "finalizers": ["migmanager.io/test"]}
        world.make_namespace(world.salt)
        pod = world.cluster.create(POD, {"metadata": metadata, "spec": spec}, world.salt)
        world.terminate(world.salt)

        def refused() -> bool:
            try:
                world.cluster.evict(world.salt, "p", pod["metadata"]["uid"], dry_run=True)
            except errors.NamespaceTerminatingError:
                return True
            return False

        eventually(refused)
        with pytest.raises(errors.NamespaceTerminatingError):
            world.cluster.create(POD, {"metadata": {"name": "q"}, "spec": spec}, world.salt)
        world.cluster.patch(POD, "p", {"metadata": {"finalizers": None}}, world.salt)

    def test_a_pending_pod_needs_no_budget(self, world: World) -> None:
        """What does not run yet is evicted whatever the budget says."""
        node = world.node()["metadata"]["name"]
        uid = world.pod(node=node)["metadata"]["uid"]
        world.budget("b", 1)
        world.cluster.evict(NS, world.name("p"), uid, grace_s=0)
        assert gone(world, POD, world.name("p"), NS)


class TestEvents:
    """Events as kubectl describe finds them."""

    def test_events_on_a_node_are_found_by_describe(self, world: World) -> None:
        """They stand in default and name no namespace; the same words again raise the count."""
        node = world.node()
        for minute in (1, 2):
            events.post(
                world.cluster,
                node,
                event_type=events.EventType.WARNING,
                reason="DrainBlocked",
                message="web/frontend is protected by PodDisruptionBudget web",
                now=datetime(2026, 1, 1, 12, minute, tzinfo=UTC),
            )
        name = node["metadata"]["name"]
        found = world.cluster.list(EVENT, fields=f"involvedObject.name={name},involvedObject.namespace=").items
        assert [(2, "2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z")] == [
            (event["count"], event["firstTimestamp"], event["lastTimestamp"])
            for event in found
            if event["reason"] == "DrainBlocked"
        ]

    def test_what_is_said_once_only(self, world: World) -> None:
        """An Event that is there already stays as it is; on a pod it stands in the pod's namespace."""
        pod = world.pod()
        for minute in (1, 2):
            events.post(
                world.cluster,
                pod,
                event_type=events.EventType.NORMAL,
                reason="RepartitionEviction",
                message="it will be evicted",
                now=datetime(2026, 1, 1, 12, minute, tzinfo=UTC),
                host="n1",
                once=True,
            )
        uid = pod["metadata"]["uid"]
        found = world.cluster.list(EVENT, NS, fields=f"involvedObject.uid={uid}").items
        assert [(1, "2026-01-01T12:01:00Z", "n1")] == [
            (event["count"], event["lastTimestamp"], event["source"]["host"])
            for event in found
            if event["reason"] == "RepartitionEviction"
        ]

    def test_other_words_are_another_event(self, world: World) -> None:
        """Two reasons make two Events; an overlong message is cut where the API would refuse it."""
        node = world.node()
        for reason in ("One", "Two"):
            events.post(
                world.cluster,
                node,
                event_type=events.EventType.NORMAL,
                reason=reason,
                message="x" * 2000,
                now=datetime(2026, 1, 1, tzinfo=UTC),
            )
        name = node["metadata"]["name"]
        found = world.cluster.list(EVENT, NS, fields=f"involvedObject.name={name}").items
        lengths = {event["reason"]: len(event["message"]) for event in found if event["reason"] in ("One", "Two")}
        assert {"One": 1024, "Two": 1024} == lengths


def test_scope_is_checked_before_anything_is_sent(world: World) -> None:
    """A Pod without namespace or a Node with one is the caller's mistake."""
    with pytest.raises(ValueError, match="a Pod is named by namespace and name"):
        world.cluster.get(POD, "p")
    with pytest.raises(ValueError, match="a Node is in no namespace"):
        world.cluster.get(NODE, "n", NS)


# -- other people's kinds --


def test_list_of_a_kind_that_the_server_does_not_serve(world: World) -> None:
    """An API that is not there is told from one without objects."""
    kind = Kind("ResourceSlice", "resource.k8s.io", "v0", "resourceslices", namespaced=False)
    with pytest.raises(errors.NotFoundError):
        world.cluster.list(kind)


def test_resource_slices_by_node_and_driver(world: World) -> None:
    """The slices of one driver on one node are found by field selector."""
    node, driver = world.name("n"), "gpu.example.com"
    for name, of in ((world.name("a"), driver), (world.name("b"), "other.example.com")):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"nodeName": node, "driver": of, "pool": pool, "devices": [{"name": "gpu-0"}]}
        world.cluster.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})
    found = world.cluster.list(RESOURCE_SLICE, fields=f"spec.nodeName={node},spec.driver={driver}").items
    assert [world.name("a")] == [slice_["metadata"]["name"] for slice_ in found]
    for name in (world.name("a"), world.name("b")):
        world.cluster.delete(RESOURCE_SLICE, name)


def test_time_is_that_of_the_objects(world: World) -> None:
    """What the server dates and what a client takes for the present are by one clock."""
    created = datetime.fromisoformat(world.node()["metadata"]["creationTimestamp"])
    assert abs(world.cluster.now() - created) < timedelta(seconds=30)
