"""The image: what its Dockerfile copies is there, and is what building the package takes."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.manifests import DEPLOY, ROOT, pod_of

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def instructions(name: str) -> list[list[str]]:
    """The words of every such instruction, continuation lines joined."""
    lines = DOCKERFILE.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"{name} ")]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied() -> set[str]:
    """What is copied from the checkout; the last word of an instruction is where to."""
    local = [words for words in instructions("COPY") if not words[0].startswith("--from=")]
    return {word for words in local for word in words[:-1]}


def test_what_is_copied_is_there() -> None:
    """Every COPY has its source in the checkout."""
    assert copied()
    assert [] == [source for source in copied() if not (ROOT / source).exists()]


def test_what_the_package_is_built_of_is_copied() -> None:
    """Sources, data, README and licence, and the lock file that the dependencies come from."""
    config = project()
    wheel = config["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        "pyproject.toml",
        "uv.lock",
        config["project"]["readme"],
        *config["project"]["license-files"],
        *wheel["packages"],
        *wheel["force-include"],
    }
    assert needed == copied()


def test_build_context_holds_exactly_what_is_copied() -> None:
    """The ignore file lets through what the Dockerfile copies and nothing else."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in lines
    assert copied() == {line.removeprefix("!") for line in lines if line.startswith("!")}


def test_stages_copy_from_stages_that_exist() -> None:
    """A COPY --from names an earlier stage."""
    stages = {words[2] for words in instructions("FROM") if len(words) == 3}
    named = {words[0].removeprefix("--from=") for words in instructions("COPY") if words[0].startswith("--from=")}
    assert named == stages


def test_base_images_are_pinned() -> None:
    """The default images name a version; uv's is the one that the Makefile installs."""
    defaults = dict(words[0].split("=", 1) for words in instructions("ARG"))
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", defaults["PYTHON"])
    version = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert version is not None
    assert defaults["UV"].endswith(f":{version[1]}")


def test_image_starts_the_program_as_an_ordinary_user() -> None:
    """The entry point is the console script, and root is what a manifest must ask for."""
    assert [["[mig-manager]"]] == instructions("ENTRYPOINT")
    assert "mig-manager" in project()["project"]["scripts"]
    controller = pod_of("", "Deployment", "controller")["securityContext"]
    assert [[f"{controller['runAsUser']}:{controller['runAsGroup']}"]] == instructions("USER")


def test_manifests_name_the_image_of_this_version() -> None:
    """The tag that kustomize writes, and the one of the build command, are the project's version."""
    version = project()["project"]["version"]
    base = yaml.safe_load(Path(DEPLOY / "base" / "kustomization.yaml").read_text())
    assert [{"name": "mig-manager", "newTag": version}] == base["images"]
    for kind, name in (("DaemonSet", "agent"), ("Deployment", "controller")):
        assert f"mig-manager:{version}" == pod_of("", kind, name)["containers"][0]["image"]
    assert f"-t mig-manager:{version} " in DOCKERFILE
