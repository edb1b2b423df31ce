"""The table of NVML's functions, and the library's symbols."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from pathlib import Path

import pynvml

from mig_manager.sim.libnvml.functions import ERROR_STRING, functions
from mig_manager.sim.model.faults import SYMBOLS

TABLE = functions()


def test_modelled_functions_are_those_of_the_simulation() -> None:
    """What is modelled in-process is modelled in the library; there is one list of what faults can strike."""
    assert sorted(SYMBOLS) == sorted(TABLE.modelled)


def test_every_function_of_nvidia_ml_py_has_a_row() -> None:
    """A function that nvidia-ml-py may look up is in the table, so that the page says what becomes of it."""
    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'_nvmlGetFunctionPointer\(\s*"(nvml\w+)"\s*\)', source))

    assert len(named) > 400
    assert set() == named - set(TABLE.exported)


def test_every_name_is_there_once() -> None:
    """A function is modelled, another name for one that is, or error-only."""
    assert [] == [name for name, count in Counter(TABLE.exported).items() if count > 1]
    assert set(TABLE.same.values()) <= set(TABLE.modelled)


def test_no_newer_version_hides_a_modelled_one() -> None:
    """Programs take the newest version that is there; one that only answers not supported must not be it."""
    known = {*TABLE.modelled, *TABLE.same}
    newer = [
        (name, other)
        for name in known
        for other in TABLE.error_only
        if _family(name) == _family(other) and _version(other) > _version(name)
    ]
    assert [] == newer


def test_every_function_is_exported_and_nothing_else(library: Path) -> None:
    """The symbols of the library are the table."""
    loaded = ctypes.CDLL(str(library))
    for name in TABLE.exported:
        assert getattr(loaded, name)
    for name in ("call", "begin", "have_python", "python"):
        assert not hasattr(loaded, name)


def test_what_is_only_there_answers_an_error(library: Path) -> None:
    """No error-only function ever says success, whatever it is called with."""
    loaded = ctypes.CDLL(str(library))
    assert {0} != {getattr(loaded, name)(None, None, None) for name in TABLE.error_only}
    assert not {getattr(loaded, name)(None, None, None) for name in TABLE.error_only} - {1, 3}


def test_error_texts_are_those_of_the_simulation(library: Path) -> None:
    """Texts that nvidia-ml-py asks the library for."""
    text = getattr(ctypes.CDLL(str(library)), ERROR_STRING)
    text.restype = ctypes.c_char_p
    assert [b"Success", b"Insufficient Resources", b"Unknown Error", b"Unknown NVML error code: 4711"] == [
        text(code) for code in (0, 23, 999, 4711)
    ]


def _family(name: str) -> str:
    return re.sub(r"_v\d+$", "", name)


def _version(name: str) -> int:
    found = re.search(r"_v(\d+)$", name)
    return int(found[1]) if found else 1
