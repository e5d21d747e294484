"""The public surface, and what importing it costs."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mqpg

DATA = ("sqlalchemy", "alembic", "pydantic", "jinja2", "pyspark", "pandas", "pyarrow", "pgmq")
HEAVY = (*DATA, "typer", "rich", "starlette", "uvicorn", "opentelemetry", "prometheus_client")


def test_all_lists_exactly_the_public_names() -> None:
    assert mqpg.__all__ == sorted(mqpg._HOME_OF)
    assert len(mqpg.__all__) <= 31
    assert set(dir(mqpg)) >= {*mqpg.__all__, "protocols"}


@pytest.mark.parametrize("name", mqpg.__all__)
def test_each_name_is_the_one_of_its_module(name: str) -> None:
    home = importlib.import_module(mqpg._HOME_OF[name])
    assert getattr(mqpg, name) is getattr(home, name)
    assert name in home.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mqpg' has no attribute 'nothing'"):
        mqpg.nothing  # noqa: B018


def loaded(code: str) -> set[str]:
    """Which of the heavy packages a new interpreter has loaded after this code."""
    code += f"\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_loads_nothing_heavy() -> None:
    assert loaded("import mqpg, mqpg.migrate, mqpg.workers.worker, mqpg.cli") == set()
    assert loaded("import mqpg.workers.cli") == {"typer"}
    assert loaded("import sqlalchemy") == {"sqlalchemy"}


def test_a_program_in_the_folder_of_a_clone() -> None:
    """It finds that folder's mqpg before the one that pip installed. The tests' own is found by an editable install."""
    code = (
        "import sys; sys.meta_path = [one for one in sys.meta_path if 'Editable' not in repr(one)];"
        "import mqpg.sql, mqpg.workers.worker, mqpg.spark; print(mqpg.sql.__file__)"
    )
    root = Path(mqpg.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(root / "sql" / "__init__.py")


def test_a_worker_loads_what_its_role_needs() -> None:
    start = "import mqpg.workers.start; from mqpg.workers import worker_of; worker_of('{}')"
    for role in ("appender", "compensator", "keeper"):  # a compensator loads it for a ledger elsewhere
        assert loaded(start.format(role)) == set()


SEND = """
import mqpg
with mqpg.connect({dsn!r}) as mq:
    mq.create_topic("t")
    mq.send("t", {{}})
"""
SEND_ASYNC = """
import asyncio, mqpg
async def main():
    async with await mqpg.connect_async({dsn!r}) as mq:
        await mq.create_topic("t")
        await mq.send("t", {{}})
asyncio.run(main())
"""


@pytest.mark.parametrize("code", [SEND, SEND_ASYNC])
def test_a_client_loads_nothing_heavy(dsn: str, code: str) -> None:
    assert loaded(code.format(dsn=dsn)) == set()


def test_a_consumer_with_a_database_of_its_own_loads_sqlalchemy_alone() -> None:
    assert loaded("import mqpg._sync.client.client, mqpg._sync.consumer.own_database") == {"sqlalchemy"}


def test_names_that_are_typed_are_found_at_run_time() -> None:
    source = inspect.getsource(mqpg)
    for home, names in mqpg._HOMES.items():
        assert f"from {home} import " in source, home
        assert all(name in source for name in names)
