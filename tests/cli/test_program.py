"""The program as a whole: help, start-up, errors, completion, and what it does on bad input."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture

from mig_manager.cli.main import program
from mig_manager.cli.progress import showing_progress
from mig_manager.gpu.parts import Action, Event
from tests.cli.commands import create, run, spawn, succeed

HEAVY = ("yaml", "jsonschema", "rich", "kubernetes", "kopf", "pynvml", "grpc", "mig_manager.planner.plan")


def verbs(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    """Every verb by its path, groups included."""
    found: list[tuple[str, ...]] = [path]
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += verbs(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


VERBS = verbs(program)


def imported(*arguments: str) -> list[str]:
    """Which heavy modules a run of the program imports."""
    code = (
        "import sys, json, atexit\n"
        f"atexit.register(lambda: print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]), file=sys.stderr))\n"
        "from mig_manager.cli.main import program\n"
        f"program.main({list(arguments)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("plan", "--help"), ("completion", "bash")])
def test_starts_light(arguments: tuple[str, ...]) -> None:
    """Help, version and completion import nothing heavy."""
    assert [] == imported(*arguments)


def test_profiles_of_a_card_start_light() -> None:
    """Listing a card needs the tables' YAML and nothing else."""
    assert ["yaml"] == imported("profiles", "--gpu", "A30")


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_help_has_examples(path: tuple[str, ...]) -> None:
    """Every verb explains itself with examples that begin with the program's name."""
    text = succeed(*path, "--help")

    assert re.search(r"^  Examples?:\n    .*mig-manager ", text, re.MULTILINE)
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("path", [p for p in VERBS if p], ids=" ".join)
def test_listed_help_is_there(path: tuple[str, ...]) -> None:
    """The line by which a group lists a verb is a sentence."""
    group = succeed(*path[:-1], "--help")

    assert re.search(rf"^  {path[-1]} +[A-Z].*\.$", group, re.MULTILINE)


def test_exit_codes_are_documented() -> None:
    """All exit codes stand in the help of the program, of plan and of apply."""
    for path in ((), ("plan",), ("apply",)):
        text = succeed(*path, "--help")
        assert all(re.search(rf"^    {code}  \w", text, re.MULTILINE) for code in range(6))


def test_version() -> None:
    """--version prints the version of the package."""
    assert f"mig-manager {version('mig-manager')}\n" == succeed("--version")


def test_plug_in_for_kubectl() -> None:
    """As kubectl's plug-in the program calls itself as it was called."""
    script = Path(sys.executable).with_name("kubectl-mig_manager")

    done = subprocess.run([str(script), "plan", "--help"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("Usage: kubectl mig-manager plan ")


def test_module_and_script_are_the_program(tmp_path: Path) -> None:
    """``python -m mig_manager`` works and ends with the exit code."""
    box = create(tmp_path, "A30")

    result = spawn("plan", "--sim", box, "--profile", "all-1g", "--detailed-exitcode")

    assert (4, "") == (result.returncode, result.stderr)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("plann",), "did you mean plan?"),
        (("sim", "creat"), "did you mean create"),
        (("frobnicate",), "there are plan, apply, "),
        (("plan", "--profil", "x"), "--profile"),
        (("plan", "-o", "xml"), "json"),
    ],
)
def test_what_was_meant(arguments: tuple[str, ...], hint: str) -> None:
    """A verb, option or value that is not there is answered with what is."""
    result = run(*arguments)

    assert (2, 1, "") == (result.exit_code, result.stderr.count("\n"), result.stdout)
    assert hint in result.stderr


@pytest.mark.parametrize("path", [(), ("sim",)])
def test_nothing_said(path: tuple[str, ...]) -> None:
    """Without a verb the help is printed on standard error, and the exit code is 2."""
    result = run(*path)

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("Usage: ")


def files(directory: Path) -> dict[Path, bytes]:
    """All files below a directory with their contents, without locks, which come and go."""
    return {p: p.read_bytes() for p in directory.rglob("*") if p.is_file() and not p.name.endswith("lock")}


BOX = "{box}"
TEXT = "{text}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--gpu", "A30"),
        ("plan", "--gpu", "A3000", "--profile", "all-1g"),
        ("plan", "--gpu", "H100", "--profile", "all-1g"),
        ("plan", "--gpu", "A30*0", "--profile", "all-1g"),
        ("plan", "--gpu", "A30*many", "--profile", "all-1g"),
        ("plan", "--gpu", "A30*100000000", "--profile", "all-1g"),
        ("plan", "--gpu", "Thor", "--profile", "all-1g"),
        ("plan", "--gpu", "A30", "--profile", "all-9g"),
        ("plan", "--gpu", "A30", "--profile", ""),
        ("plan", "--gpu", "A30", "--sim", BOX, "--profile", "all-1g"),
        ("plan", "--gpu", "A30", "-f", "/nonexistent.yaml"),
        ("plan", "--gpu", "A30", "-f", "/"),
        ("plan", "--gpu", "A30", "-f", "/dev/null"),
        ("plan", "--gpu", "A30", "-f", BOX),
        ("plan", "--gpu", "A30", "-f", "/bin/sh"),
        ("plan", "-f", "-", "--from", "-"),
        ("plan", "--from", "/nonexistent", "--profile", "all-1g"),
        ("plan", "--from", BOX, "--profile", "all-1g"),
        ("plan", "--from", "/bin/sh", "--profile", "all-1g"),
        ("plan", "--sim", "/nonexistent", "--profile", "all-1g"),
        ("plan", "--sim", "/", "--profile", "all-1g"),
        ("plan", "--sim", TEXT, "--profile", "all-1g"),
        ("plan", "--sim", "/bin/sh", "--profile", "all-1g"),
        ("plan", "--sim", BOX, "--profile", "all-1g", "surplus"),
        ("apply", "--sim", BOX),
        ("apply", "--sim", BOX, "--gpu", "A30", "--profile", "all-1g"),
        ("apply", "--sim", BOX, "--profile", "all-1x"),
        ("apply", "--sim", TEXT, "--profile", "all-1g"),
        ("inspect", "--sim", TEXT),
        ("export", "--sim", TEXT),
        ("export", "--sim", BOX, "-o", "toml"),
        ("profiles", "--gpu", "nothing"),
        ("validate", TEXT),
        ("sim", "create", BOX, "--gpu", "A30"),
        ("sim", "create", BOX + "2"),
        ("sim", "create", BOX + "2", "--gpu", "nothing"),
        ("sim", "create", BOX + "2", "--gpu", "A30*17"),
        ("sim", "create", "/nonexistent/m.sim", "--gpu", "A30"),
        ("sim", "show", "/nonexistent"),
        ("sim", "free", BOX),
        ("sim", "free", BOX, "--start", "4"),
        ("sim", "reset", BOX),
        ("sim", "fault", BOX, "--code", "IN_USE"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName"),
        ("sim", "fault", BOX, "--function", "nvmlNothing", "--code", "IN_USE"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName", "--code", "BUSY"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName", "--code", "4242"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName", "--code", "IN_USE", "--call", "0"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName", "--code", "IN_USE", "--call", "x"),
        ("sim", "fault", BOX, "--function", "nvmlDeviceGetName", "--clear"),
        ("completion", "tcsh"),
    ],
    ids=" ".join,
)
def test_bad_input(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Bad input is answered with one line on standard error and 2, prints nothing else and changes nothing."""
    box = create(tmp_path, "A30")
    text = tmp_path / "text"
    text.write_text("hello")
    before = files(tmp_path)

    result = run(*(a.format(box=box, text=text) for a in arguments), stdin="")

    assert (2, "", 1) == (result.exit_code, result.stdout, result.stderr.count("\n")), result.stderr
    assert result.stderr.startswith("error: ")
    assert before == files(tmp_path)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"kind": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("arguments", [("inspect", "--from"), ("inspect", "--sim"), ("validate",)])
def test_documents_that_overwhelm_a_parser(arguments: tuple[str, ...], content: str, tmp_path: Path) -> None:
    """However deep or long, it is bad input of one line that names the file."""
    file = tmp_path / "x.json"
    file.write_text(content, encoding="utf-8")

    result = run(*arguments, str(file))

    assert 2 == result.exit_code
    assert 1 == len(result.stderr.splitlines())
    assert result.stderr.startswith(f"error: {file}: ")
    assert 1 == result.stderr.count(str(file))


@pytest.mark.parametrize("arguments", [("validate",), ("plan", "--gpu", "A30", "-f")])
def test_errors_are_short_and_print_no_control_characters(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """What a file holds cannot move the cursor or fill the screen, and the file is named once."""
    file = tmp_path / "x.yaml"
    file.write_text(f'version: v1\nmig-configs: {{"\\e[2J": [{"x" * 9000}]}}\n', encoding="utf-8")

    result = run(*arguments, str(file))

    assert 2 == result.exit_code
    assert "\\x1b[2J" in result.stderr
    assert "\x1b" not in result.stderr
    assert len(result.stderr) < 2100
    assert 1 == result.stderr.count(str(file))


@pytest.mark.parametrize("verb", ["apply", "plan", "inspect", "profiles"])
def test_output_that_cannot_be_written(verb: str, tmp_path: Path) -> None:
    """A full disk under standard output is one line and exit code 1; closed, it changes nothing."""
    box = create(tmp_path, "A30")
    arguments = [verb, "--sim", box, *(["--profile", "all-1g"] if verb in ("apply", "plan") else [])]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mig_manager", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "mig_manager", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (1, "error: writing the output: No space left on device\n") == (done.returncode, done.stderr)
    assert (0, "") == (closed.returncode, closed.stderr)


def test_a_change_goes_on_when_its_reader_goes_away(mocker: MockerFixture) -> None:
    """What is told about a call cannot keep the call from being made."""
    mocker.patch("mig_manager.cli.progress.click.echo", side_effect=BrokenPipeError)
    with showing_progress(None, quiet=False) as progress:
        progress(Event(Action.RESET, "GPU-0", "GPU 0"))


def test_names_that_a_terminal_would_obey(tmp_path: Path) -> None:
    """A process cannot be given a name with control characters."""
    box = create(tmp_path, "A30")
    result = run("sim", "hold", box, "--gpu", "0", "--name", "a\x1b[2J\nb")

    assert (2, 1) == (result.exit_code, len(result.stderr.splitlines()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    """The script is for the program's own name."""
    text = succeed("completion", shell)

    assert "_MIG_MANAGER_COMPLETE" in text
    assert "mig-manager" in text


def test_completion_completes() -> None:
    """Verbs and their options are completed."""
    script = Path(sys.executable).with_name("mig-manager")
    environment = {
        **os.environ,
        "_MIG_MANAGER_COMPLETE": "bash_complete",
        "COMP_WORDS": "mig-manager pl",
        "COMP_CWORD": "1",
    }

    found = subprocess.run([str(script)], capture_output=True, text=True, check=False, env=environment)

    assert "plain,plan\n" == found.stdout


def test_reader_that_goes_away() -> None:
    """When the reader of the output closes it early there is no traceback."""
    command = f"{sys.executable} -m mig_manager profiles -o json | head -n 1"

    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)

    assert ("{\n", "") == (done.stdout, done.stderr)


def test_interrupt_from_the_keyboard(mocker: MockerFixture) -> None:
    """Ctrl-C ends the program with one line and the code that shells expect."""
    mocker.patch("mig_manager.cli.machines.Source.view", side_effect=KeyboardInterrupt)

    result = run("inspect")

    assert (130, "error: interrupted\n") == (result.exit_code, result.stderr.lstrip("\n"))


@pytest.mark.parametrize(("encoding", "bar"), [("ascii", "|"), ("utf-8", "│"), ("latin-1", "|")])
def test_characters_that_the_output_can_show(encoding: str, bar: str) -> None:
    """Where the output is not UTF-8 the drawing is ASCII."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}

    done = subprocess.run(
        [sys.executable, "-m", "mig_manager", "plan", "--gpu", "A30*2", "--profile", "all-1g"],
        capture_output=True,
        check=True,
        env=environment,
    )

    assert f"after  {bar}1g.6gb create" in done.stdout.decode(encoding)


def on_terminal(arguments: list[str], **environment: str) -> str:
    """What the program writes to a terminal."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mig_manager", *arguments],
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment},
    )
    os.close(terminal)
    chunks = []
    while True:
        try:
            chunk = os.read(main, 4096)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(main)
    assert 0 == process.wait()
    return b"".join(chunks).decode()


def test_terminal_has_colours_unless_unwanted(tmp_path: Path) -> None:
    """A terminal gets colours and a progress bar; NO_COLOR turns the colours off."""
    box = create(tmp_path, "A30")
    plan = ["plan", "--sim", box, "--profile", "all-1g"]

    assert "\x1b[32mcreate\x1b[0m" in on_terminal(plan)
    assert "\x1b" not in on_terminal(plan, NO_COLOR="1")
    applied = on_terminal(["apply", "--sim", box, "--profile", "all-1g"])
    assert "creating GPU instance 1g.6gb at 3 on GPU 0" in applied
    assert "8/8" in applied
