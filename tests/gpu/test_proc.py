"""Processes with NVIDIA's device files open, as a tree in the manner of /proc shows them; and what that means."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.state import Card, Holder, SliceKey, said
from mig_manager.gpu.hints import holder_of
from mig_manager.gpu.holders import Users, users_of
from mig_manager.gpu.port import GpuError
from mig_manager.gpu.proc import Opened, ProcTree, Scan, User, pod_uid_in
from mig_manager.sim.model.capabilities import capability_minor, mig_minors
from tests.gpu.worlds import A100, H100, Make, World

UID = "0d2f7a8e-1b2c-4d5e-8f90-a1b2c3d4e5f6"
UNDERSCORED = UID.replace("-", "_")
HASH = "d8e3ab8c6e3a4c1f9b7a5d2e0f1c3b4a"


class Tree:
    """A directory that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def process(self, pid: int, command: str, files: Iterable[str] = (), groups: str = "0::/init.scope\n") -> Path:
        """A process with these files open."""
        directory = self.root / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "comm").write_text(f"{command}\n")
        (directory / "cgroup").write_text(groups)
        for number, file in enumerate(files):
            (directory / "fd" / str(number)).symlink_to(file)
        return directory

    def minors(self, text: str) -> None:
        """What the driver says of its capabilities."""
        path = self.root / "driver/nvidia-caps/mig-minors"
        path.parent.mkdir(parents=True)
        path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty one."""
    root = tmp_path / "proc"
    root.mkdir()
    (root / "uptime").write_text("1 1\n")
    return Tree(root)


# -- reading --


@pytest.mark.parametrize(
    ("groups", "uid"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-1.scope", UID),
        (f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-1.scope", UID),
        (f"0::/kubepods/besteffort/pod{UID}/f00", UID),
        (f"12:pids:/kubepods/pod{UID}/f00\n11:devices:/kubepods/pod{UID}/f00\n", UID),
        (f"1:name=systemd:/kubepods.slice/kubepods-besteffort-pod{UNDERSCORED}.slice", UID),
        (f"0::/../../../kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/x.scope", UID),
        (f"0::/../../pod{UID}/f00", UID),
        (f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/x", UID),
        (f"0::/kubepods/burstable/pod{HASH}/f00", HASH),
        (f"0::/kubepods.slice/kubepods-burstable-pod{HASH}.slice/x.scope", HASH),
        ("0::/system.slice/nvidia-dcgm.service", ""),
        ("0::/user.slice/user-1000.slice/session-2.scope", ""),
        ("0::/machine.slice/libpod-conmon-podman.scope", ""),
        ("", ""),
    ],
)
def test_pod_of_a_process(groups: str, uid: str) -> None:
    """Both drivers of the kubelet, both versions of control groups, static pods, and paths seen from within a group."""
    assert uid == pod_uid_in(groups)


def test_who_has_what_open(tree: Tree) -> None:
    """Cards and capabilities count, wherever the driver's root is; other files of NVIDIA's name no card."""
    tree.process(7, "a", ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "socket:[1]"])
    tree.process(8, "b", ["/run/nvidia/driver/dev/nvidia12 (deleted)", "/dev/nvidia-caps/nvidia-cap21"])
    tree.process(9, "c", ["/dev/nvidia-modeset", "/dev/null", "/home/nvidia0", "/dev/nvidia0.log"])
    found = ProcTree(tree.root).scan()
    assert Scan((Opened(7, frozenset({0, 1}), frozenset()), Opened(8, frozenset({12}), frozenset({21})))) == found


def test_own_process_does_not_count(tree: Tree) -> None:
    """Whoever looks has the cards open himself; he is who that tree says."""
    tree.process(7, "mig-manager", ["/dev/nvidia0"])
    (tree.root / "self").symlink_to("7")
    assert Scan() == ProcTree(tree.root).scan()


def test_processes_that_end_meanwhile_are_nobody(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is gone, or a file that was closed, between two looks is no holder and no error."""
    gone = tree.process(7, "a", ["/dev/nvidia0"])
    (gone / "fd/0").unlink()
    (gone / "fd").rmdir()
    tree.process(8, "b", ["/dev/nvidia0", "/dev/nvidia1"])
    read = os.readlink

    def closed(path: str) -> str:
        if str(path).endswith("/8/fd/0"):
            raise FileNotFoundError
        return read(path)

    monkeypatch.setattr(os, "readlink", closed)
    assert Scan((Opened(8, frozenset({1}), frozenset()),)) == ProcTree(tree.root).scan()
    assert User(9) == ProcTree(tree.root).user(9)


def test_processes_that_may_not_be_looked_at_are_counted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without permission nobody knows what a process uses, and that is said."""
    for pid in (7, 8, 9):
        tree.process(pid, "a", ["/dev/nvidia0"])
    scan = os.scandir

    def forbidden(path: str | Path) -> object:
        if str(path).endswith(("/7/fd", "/8/fd")):
            raise PermissionError
        return scan(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    assert Scan((Opened(9, frozenset({0}), frozenset()),), 2) == ProcTree(tree.root).scan()


def test_tree_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A wrong mount is not taken for a host without processes."""
    with pytest.raises(GpuError, match=r"looking for open device files in .*/nowhere: No such file or directory"):
        ProcTree(tmp_path / "nowhere").scan()


def test_what_a_process_is_called(tree: Tree) -> None:
    """By pid and command; what cannot be printed is escaped, and who is gone has a number only."""
    tree.process(7, "python", groups=f"0::/kubepods/pod{UID}/x\n")
    tree.process(8, "a\x1bb")
    proc = ProcTree(tree.root)
    assert (User(7, "python", UID), "pid 7 (python)") == (proc.user(7), str(proc.user(7)))
    assert (User(8, r"a\x1bb", ""), r"pid 8 (a\x1bb)") == (proc.user(8), str(proc.user(8)))
    assert "pid 9" == str(proc.user(9))


# -- what it means --


def users(world: World, tree: Tree) -> tuple[Users, tuple[Card, ...]]:
    with world.process() as gpus, gpus.session() as session:
        cards = session.cards()
        return users_of(session, cards, ProcTree(tree.root)), cards


def cut(world: Make, model: str = A100) -> tuple[World, int, int]:
    """Two slices, one of them cut further; their GPU instance ids."""
    w = world(model, model)
    first = w.machine.add_instance(0, "3g", start=4, compute_widths=(1, 2))
    second = w.machine.add_instance(0, "1g", start=0)
    return w, first.id, second.id


def caps(*minors: int) -> list[str]:
    return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors]


def pids(found: Users) -> dict[SliceKey, set[int]]:
    return {key: {user.pid for user in who} for key, who in found.found.items()}


def test_capabilities_name_the_slice(world: Make, tree: Tree) -> None:
    """A compute instance with its GPU instance is that compute instance; a GPU instance alone is all of it."""
    w, first, second = cut(world)
    tree.minors(mig_minors(w.machine.read()))
    parent = ["/dev/nvidiactl", "/dev/nvidia0"]
    tree.process(7, "python", parent + caps(capability_minor(0, first), capability_minor(0, first, 1)))
    tree.process(8, "mps", parent + caps(capability_minor(0, second)))
    tree.process(9, "monitor", parent + caps(1, 2))
    found, cards = users(w, tree)
    card = cards[0].uuid
    assert {
        SliceKey(card, first, 1): {7},
        SliceKey(card, second): {8},
        SliceKey(card): {9},
    } == pids(found)


def test_process_that_nvml_lists_too_counts_once(world: Make, tree: Tree) -> None:
    """What NVML and open files say of one process is one user."""
    w, _, second = cut(world)
    tree.minors(mig_minors(w.machine.read()))
    client = w.machine.hold(0, start=0)
    tree.process(client.pid, "python", caps(capability_minor(0, second), capability_minor(0, second, 0)))
    found, cards = users(w, tree)
    assert {SliceKey(cards[0].uuid, second, 0): frozenset({User(client.pid, "python", "")})} == found.found


def test_capabilities_of_one_card_leave_the_other_open_as_a_whole(world: Make, tree: Tree) -> None:
    """A program that computes on a slice of one card and has another card open uses that one as a whole."""
    w, _, second = cut(world)
    tree.minors(mig_minors(w.machine.read()))
    tree.process(7, "python", ["/dev/nvidia0", "/dev/nvidia1", *caps(capability_minor(0, second, 0))])
    found, cards = users(w, tree)
    assert {SliceKey(cards[0].uuid, second, 0): {7}, SliceKey(cards[1].uuid): {7}} == pids(found)


def test_driver_without_capabilities(world: Make, tree: Tree) -> None:
    """Where the driver says nothing of capabilities, the card's own file counts."""
    w, _, _ = cut(world)
    tree.process(7, "python", ["/dev/nvidia0", *caps(21)])
    found, cards = users(w, tree)
    assert {SliceKey(cards[0].uuid): {7}} == pids(found)


@pytest.mark.parametrize(("model", "counts"), [(A100, True), (H100, False)])
def test_persistenced_minds_resets_only(world: Make, tree: Tree, model: str, counts: bool) -> None:
    """It is in the way where a change of mode takes a reset, and nowhere else; another program is everywhere."""
    w, _, _ = cut(world, model)
    tree.process(7, "nvidia-persiste", ["/dev/nvidia0"])
    tree.process(8, "monitor", ["/dev/nvidia0"])
    found, cards = users(w, tree)
    assert counts is (cards[0].mode_change is ModeChange.RESET)
    assert {SliceKey(cards[0].uuid): {7, 8} if counts else {8}} == pids(found)


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("nvidia-persiste", "systemctl stop nvidia-persistenced"),
        ("nv-hostengine", "systemctl stop nvidia-dcgm"),
        ("nvsm_core", "systemctl stop nvsm"),
        ("nvidia-cuda-mps", "echo quit | nvidia-cuda-mps-control"),
        ("Xorg", "a display server"),
    ],
)
def test_known_programs_come_with_a_hint(command: str, hint: str) -> None:
    """Who is known to be in the way is named with what to do about it."""
    holder = holder_of(User(812, command))
    assert hint in holder.hint
    assert f"ns/p; pid 812 ({command}); {holder.hint}" == said([holder, Holder("ns/p")])


def test_what_helps_against_many_is_said_once() -> None:
    """Those for whom the same helps are named together, three of them, and the others counted."""
    many = [Holder(f"pid {pid}", hint="end it") for pid in range(1, 6)]
    assert "ns/a, ns/b; pid 1, pid 2, pid 3 and 2 more; end it" == said([*many, Holder("ns/a"), Holder("ns/b")])


def test_hints_tell_nobody_apart() -> None:
    """A holder is who he is, whatever is said about him."""
    holder = holder_of(User(812, "Xorg"))
    assert holder == replace(holder, hint="")


def test_unreadable_processes_reach_whoever_asked(world: Make, tree: Tree) -> None:
    """How many processes nobody could look at comes along with who was found."""
    w, _, _ = cut(world)

    class Blind(ProcTree):
        """May look at nobody."""

        def scan(self) -> Scan:
            return Scan((), 3)

    with w.process() as gpus, gpus.session() as session:
        cards: Collection[Card] = session.cards()
        assert Users({}, 3) == users_of(session, cards, Blind(tree.root))
