"""The units for systemd and the manifests for Kubernetes: they can be read, and the commands in them are right."""

import configparser
import re
import shlex
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from typer.main import get_command

from mqpg.cli.root import app

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OF_OPERATORS = {"postgresql.cnpg.io/v1"}
"""Kinds of CloudNativePG, which Kubernetes itself does not know."""


def require_right(command: list[str]) -> None:
    """Parse it as the command line does, without running it. A wrong option raises."""
    assert command[0] == "mqpg"
    group: Any = get_command(app)
    context = typer.Context(group, info_name="mqpg")
    rest = command[1:]
    while isinstance(group, typer.core.TyperGroup) or hasattr(group, "get_command"):
        name = rest[0] if rest and not rest[0].startswith("-") else None
        found = group.get_command(context, name) if name else None
        if found is None:
            assert name is None, f"{command}: no command {name}"
            assert group.invoke_without_command, f"{command}: a command is missing"
            break
        group, rest = found, rest[1:]
    group.make_context(group.name, rest, resilient_parsing=False)


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_unit(path: Path) -> None:
    found = unit(path)
    assert found.sections() == ["Unit", "Service", "Install"]
    service = found["Service"]
    command = shlex.split(service["ExecStart"].replace("$HANDLER", "shop.billing:bill"))
    assert command[0] == "/opt/mqpg/bin/mqpg"
    require_right(["mqpg", *command[1:]])
    # 2: wrong usage, 4: the schema is too new. A restart changes neither.
    assert service["RestartPreventExitStatus"].split() == ["2", "4"]
    # Longer than `mqpg worker` waits for its children.
    assert int(service["TimeoutStopSec"]) > 30


@pytest.mark.deploy
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    """systemd looks whether the program exists, so that of the tests stands for the installed one."""
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/mqpg/bin/mqpg", str(Path(sys.executable).with_name("mqpg"))))
    command = ["systemd-analyze", "verify", "--man=no", str(copy)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def objects() -> list[dict[str, Any]]:
    return [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text())]


def test_manifests_name_their_objects() -> None:
    kinds = {(one["kind"], one["metadata"]["name"]) for one in objects()}
    assert kinds == {
        ("Cluster", "mqpg"),
        ("Job", "mqpg-migrate"),
        ("Deployment", "mqpg-worker"),
        ("StatefulSet", "bill"),
    }
    assert all(one["apiVersion"] and one["spec"] for one in objects())


@pytest.mark.parametrize("version", ["1.28", kubernetes_validate.latest_version()])
def test_kubernetes_accepts_the_manifests(version: str) -> None:
    own = [one for one in objects() if one["apiVersion"] not in OF_OPERATORS]
    assert [one["kind"] for one in own] == ["Job", "Deployment", "StatefulSet"]
    for one in own:
        kubernetes_validate.validate(one, version, strict=True)
        mistyped = deepcopy(one)
        mistyped["spec"]["template"]["spec"]["containers"][0]["comand"] = ["mqpg"]
        with pytest.raises(kubernetes_validate.ValidationError, match="comand"):
            kubernetes_validate.validate(mistyped, version, strict=True)


def test_the_port_is_that_of_the_manual() -> None:
    manual = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    found = {
        port for path in [*UNITS, *MANIFESTS] for port in re.findall(r"--metrics\W+[\d.]+:(\d+)", path.read_text())
    }
    assert found == set(re.findall(r"--metrics [\d.]+:(\d+)", manual)) == {"9464"}


def test_commands_and_ports_of_the_manifests() -> None:
    pods = [one["spec"]["template"] for one in objects() if "template" in one["spec"]]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        require_right(container["command"])
        names = {variable["name"] for variable in container["env"]}
        assert "MQPG_DATABASE_URL" in names
        if "consume" in container["command"]:
            assert "MQPG_CONSUMER" in names, "pinned queues belong to a name that stays"
        for port in container.get("ports", []):
            assert any(text.endswith(f":{port['containerPort']}") for text in container["command"])
            assert container["readinessProbe"]["exec"]["command"] == ["mqpg", "worker", "--health"]


def test_selectors_choose_their_pods() -> None:
    for one in objects():
        if "selector" in one["spec"]:
            wanted = one["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()
