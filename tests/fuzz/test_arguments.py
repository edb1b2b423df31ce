"""Commands with arguments that nobody means: a result, or one line that says what is wrong; never a traceback."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.cli.exits import BAD_INPUT, FAILED, IN_USE
from mig_manager.cli.main import program
from mig_manager.sim.model.state import encode
from tests.cli.commands import run
from tests.fuzz.damage import text_of
from tests.fuzz.machines import STATE, a_machine
from tests.fuzz.profile import fuzz, one_line

SERVING = {"agent", "controller", "demo", "sim library"}
"""Commands that go on until they are ended, or start programs."""

MACHINE = encode(a_machine().read())
ODD = st.one_of(
    st.sampled_from(
        ["", " ", "-", "--", "-1", "0", "1", "7", "1e9", "nan", "inf", "-inf", "0x10", "9" * 5000, "1" * 20]
    ),
    st.sampled_from(
        ["\n", "\x1b[2J", "é", "\udcff", "x" * 5000, "\N{ARABIC-INDIC DIGIT SEVEN}", "²", ".", "a=b", "=", ","]
    ),
    st.sampled_from(
        ["A30", "A30*0", "A30*-1", "A30*4", "A100-SXM4-80GB*99999999999", f"A30*{'9' * 5000}", "*", "A30*x"]
    ),
    st.sampled_from(
        ["box.sim", "box.json", "none.sim", "all-1g", "all-balanced", "1g", "1g.10gb", "7g.80gb+me", "-1g"]
    ),
    st.sampled_from(
        ["GPU-1", "0/0", "0:7", "0000:00:00.0", "json", "yaml", "bash", "nvmlInit", "nvmlDeviceGetCount_v2"]
    ),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="/\0"), max_size=6),
)


def leaves(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words by which it is called."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield from leaves(found, *path, name)
    elif " ".join(path) not in SERVING:
        yield path, command


COMMANDS = dict(leaves(program))


@st.composite
def lines(draw: st.DrawFn, path: tuple[str, ...]) -> list[str]:
    """A command line: some options and arguments, each with a value that it takes, or any other."""
    words: list[str] = []
    for parameter in COMMANDS[path].params:
        sound: st.SearchStrategy[str] = ODD
        if isinstance(parameter.type, click.Choice):
            sound = st.sampled_from(list(parameter.type.choices))
        elif parameter.name in {"file", "simulated"}:
            sound = st.just("box.sim")
        elif isinstance(parameter.type, click.types.IntParamType):
            sound = st.integers(-1, 8).map(str)
        if isinstance(parameter, click.Argument):
            words += draw(st.lists(sound | ODD, min_size=1, max_size=2 if parameter.nargs == -1 else 1))
        elif draw(st.integers(0, 3 if parameter.required else 2)) > 1:
            words.append(draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts])))
            if not getattr(parameter, "is_flag", False):
                words.append(draw(sound | ODD))
    return words + draw(st.sampled_from([[], [], [], ["--no-such-option"], ["more"], ["-o"]]))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_arguments(path: tuple[str, ...]) -> None:
    """Whatever is given, the command ends with a documented code, and an error is one line."""

    @given(lines(path))
    @fuzz(40)
    def search(words: list[str]) -> None:
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            Path("box.sim").write_text(MACHINE)
            Path("box.json").write_text(text_of(STATE))
            nowhere = {"HOME": directory, "KUBECONFIG": str(Path(directory) / "none")}
            result = run(*path, *words, env=nowhere)
        assert result.exit_code in range(6)
        said = result.stderr.splitlines()
        for line in said:
            one_line(line)
        errors = sum(line.startswith("error: ") for line in said)
        assert errors == 1 if result.exit_code in {FAILED, BAD_INPUT} else errors <= (result.exit_code == IN_USE)

    search()
