"""docker-compose.yml and Dockerfile: parse, refer to what exists, and satisfy compose itself where it is there."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_the_parts_are_there(compose: dict[str, Any]) -> None:
    assert {"postgres", "migrate", "workers", "spark-master", "spark-worker"} <= compose["services"].keys()
    assert "healthcheck" in compose["services"]["postgres"]


def test_dependencies_volumes_and_targets_exist(compose: dict[str, Any]) -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= compose["services"].keys(), name
        assert "image" in service, name
        if "build" in service:
            assert service["build"]["target"] in targets, name
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in compose["volumes"], name


def test_commands_exist(compose: dict[str, Any]) -> None:
    known = {"migrate", *(entry.name for entry in entry_points(group="mqpg.commands"))}
    commands = [service["command"] for service in compose["services"].values() if "build" in service]
    for program, first, *_ in commands:
        assert program in {"mqpg", "spark-class"}
        assert program == "spark-class" or first in known


def test_workers_wait_for_the_migration(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["workers"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_nothing_listens_on_the_network(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_dockerfile_copies_every_package() -> None:
    copied = set(re.findall(r"^COPY (\S+) \S+$", DOCKERFILE, re.MULTILINE))
    namespace: dict[str, Any] = {"__name__": "folders"}
    exec((ROOT / "setup.py").read_text(encoding="utf-8"), namespace)
    assert set(namespace["FOLDERS"].values()) <= copied


def test_the_data_are_in_the_volume_with_every_image(compose: dict[str, Any]) -> None:
    """An image before 18 declares a volume of its own at /var/lib/postgresql/data, which goes with the container."""
    service = compose["services"]["postgres"]
    ((_, mounted),) = (volume.split(":") for volume in service["volumes"])
    data = PurePosixPath(service["environment"]["PGDATA"])
    assert data.is_relative_to(mounted)
    assert not data.is_relative_to("/var/lib/postgresql/data")


@pytest.mark.docker
def test_compose_accepts_it() -> None:
    done = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
