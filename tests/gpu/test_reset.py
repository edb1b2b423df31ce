"""Resetting cards through nvidia-smi."""

from __future__ import annotations

import sys

import pytest

from mig_manager.gpu.port import GpuError, InUseError, NotSupportedError
from mig_manager.gpu.reset import NvidiaSmiReset
from tests.gpu.worlds import SXM, Make


def smi(script: str) -> NvidiaSmiReset:
    """An nvidia-smi that runs a line of Python; its arguments are ``sys.argv[1:]``."""
    return NvidiaSmiReset(command=(sys.executable, "-c", f"import sys, time; {script}"), timeout_s=10)


def test_exactly_these_cards(world: Make) -> None:
    """nvidia-smi is given the bus ids of the cards and nothing else."""
    cards = world(SXM, SXM).cards()
    expected = ["-r", "-i", ",".join(card.bus_id for card in cards)]
    smi(f"sys.exit(sys.argv[1:] != {expected!r})")(cards)


def test_its_own_words(world: Make) -> None:
    """A refusal is told in nvidia-smi's words, on one line, with the cards it is about."""
    cards = world(SXM, SXM).cards()
    with pytest.raises(GpuError) as caught:
        smi("print('GPU is\\nlost.', file=sys.stderr); sys.exit(3)")(cards)
    assert f"resetting GPU 0, GPU 1: {sys.executable} failed with exit code 3: GPU is lost." == str(caught.value)
    with pytest.raises(GpuError, match="failed with exit code 4: said nothing"):
        smi("sys.exit(4)")(cards)


@pytest.mark.parametrize(
    ("said", "kind", "hint"),
    [
        ("GPU 00000000:07:00.0: In use by another client", InUseError, "nvidia-persistenced"),
        ("1 device is currently being used by one or more other processes", InUseError, "nvidia_drm"),
        ("Resetting GPU 00000000:07:00.0 is not supported.", NotSupportedError, ""),
        ("GPU 00000000:07:00.0: Not Supported", NotSupportedError, ""),
        ("Insufficient Permissions", GpuError, ""),
    ],
)
def test_kinds_of_refusal(world: Make, said: str, kind: type[GpuError], hint: str) -> None:
    """Somebody who uses a card may go; what is not supported never works on this boot; all else is just an error."""
    with pytest.raises(GpuError) as caught:
        smi(f"print({said!r}); sys.exit(255)")(world(SXM).cards())
    assert kind is type(caught.value)
    assert hint in str(caught.value)


def test_missing_or_stuck(world: Make) -> None:
    """An nvidia-smi that is missing or hangs is an error, not a hang."""
    cards = world(SXM).cards()
    with pytest.raises(GpuError, match="resetting GPU 0: /missing/nvidia-smi: No such file or directory"):
        NvidiaSmiReset(command=("/missing/nvidia-smi",))(cards)
    stuck = NvidiaSmiReset(command=(sys.executable, "-c", "import time; time.sleep(60)"), timeout_s=0.01)
    with pytest.raises(GpuError, match=r"did not finish within 0\.01 s"):
        stuck(cards)
