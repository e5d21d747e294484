"""docker-compose.yml and Dockerfile: parse, and refer to what exists. test_containers.py runs them."""

import re
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


PROFILES = {
    "database": {"postgres", "migrate", "ended"},
    "workers": {"postgres", "migrate", "workers"},
    "web": {"postgres", "migrate", "web"},
    "observability": {"postgres", "migrate", "workers", "prometheus", "grafana"},
    "spark": {"postgres", "migrate", "spark-master", "spark-worker", "ended"},
    "audit": {"postgres", "migrate", "spark-master", "spark-worker", "audit", "ended"},
    "ha": {"postgres", "standby"},
}
RUN_ONCE = {"migrate", "audit"}
CHECKED_BY_ITS_IMAGE = {"workers"}
NEVER_RUNS = {"ended"}


def test_profiles(compose: dict[str, Any]) -> None:
    services = compose["services"]
    found = {profile: {name for name in services if profile in services[name]["profiles"]} for profile in PROFILES}
    assert found == PROFILES
    assert {profile for service in services.values() for profile in service["profiles"]} == set(PROFILES)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_what_its_services_depend_on(compose: dict[str, Any], profile: str) -> None:
    """Compose refuses one that depends on a service of another profile."""
    for name in PROFILES[profile]:
        wanted = compose["services"][name].get("depends_on", {})
        assert {other for other, how in wanted.items() if how.get("required", True)} <= PROFILES[profile], name


def test_what_runs_has_a_health_check(compose: dict[str, Any]) -> None:
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert without == RUN_ONCE | CHECKED_BY_ITS_IMAGE | NEVER_RUNS


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values() if not service["image"].startswith("mqpg-")]
    bases = [base for base in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) if ":" in base]
    pinned = re.compile(r"[\w/]+:v?\d+(\.\d+){1,2}(-[\w-]+)?$")
    named = [re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", image) for image in images]
    assert len(named) == 4
    assert len(bases) == 1
    assert [image for image in named + bases if not pinned.match(image)] == []


def test_images_run_as_an_ordinary_user_with_a_number() -> None:
    """Kubernetes cannot see that a name is not root."""
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[-2:]
    assert [stage.split()[2] for stage in stages] == ["workers", "spark"]
    users = [re.findall(r"^USER (\S+)$", stage, re.MULTILINE)[-1] for stage in stages]
    assert [int(user) > 0 for user in users] == [True, True]
    assert f"--uid {users[0]} " in DOCKERFILE


def test_prometheus_and_grafana_find_their_files(compose: dict[str, Any]) -> None:
    def mounted(name: str) -> dict[str, str]:
        volumes = [volume.split(":") for volume in compose["services"][name]["volumes"]]
        return {volume[1]: volume[0] for volume in volumes if volume[0].startswith("./")}

    settings = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text(encoding="utf-8"))
    assert {mounted("prometheus")[path] for path in settings["rule_files"]} == {"./deploy/prometheus-alerts.yml"}
    provider = yaml.safe_load((ROOT / "deploy/compose/grafana-dashboards.yml").read_text(encoding="utf-8"))
    folder = provider["providers"][0]["options"]["path"]
    assert mounted("grafana")[f"{folder}/mqpg.json"] == "./deploy/grafana-dashboard.json"
    source = yaml.safe_load((ROOT / "deploy/compose/grafana-datasource.yml").read_text(encoding="utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"


def test_dependencies_volumes_and_targets_exist(compose: dict[str, Any]) -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= compose["services"].keys(), name
        assert "image" in service, name
        if "build" in service:
            assert service["build"]["target"] in targets, name
        for volume in service.get("volumes", ()):
            source, _, rest = volume.partition(":")
            if source.startswith("./"):
                assert (ROOT / source).is_file(), source
                assert rest.endswith(":ro"), volume
            else:
                assert source in compose["volumes"], name


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


def test_only_grafana_may_be_root_and_write_to_its_image(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if not service.get("read_only")} == {"grafana", "ended"}
    assert all(service["cap_drop"] == ["ALL"] for service in services.values() if service.get("read_only"))
    assert [services[name]["user"] for name in ("postgres", "standby")] == ["postgres"] * 2


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
    (mounted,) = (path for name, path, *_ in (volume.split(":") for volume in service["volumes"]) if name == "data")
    data = PurePosixPath(service["environment"]["PGDATA"])
    assert data.is_relative_to(mounted)
    assert not data.is_relative_to("/var/lib/postgresql/data")
