"""A base backup that is brought back on the same cluster: what notices it, and what cannot."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import mqpg
from mqpg import errors, migrate
from mqpg.embedded import EmbeddedServer, find_binaries
from mqpg.embedded.programs import current_account
from mqpg.workers.appender import Appender
from mqpg.workers.session import connect
from mqpg.workers.worker import Options
from tests.support.servers import temporary_server
from tests.support.waiting import eventually

# What docs/operations.md advises: a recovery, which begins a new timeline.
_RECOVERY = "restore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'\n"


@pytest.fixture
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with temporary_server() as server:
        migrate.upgrade(server.create_database("broker"))
        yield server


def backup(original: EmbeddedServer, folder: Path) -> None:
    account = current_account()
    folder.chmod(0o711)  # the server's account is another one
    (folder / "pgdata").mkdir(mode=0o700)
    account.give(folder / "pgdata")
    shutil.copy(original.directory / "password", folder / "password")
    account.run(
        [str(find_binaries() / "pg_basebackup"), "-D", str(folder / "pgdata"), "-c", "fast", "-d", original.dsn()]
    )


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    made = [Path(tempfile.mkdtemp(prefix="mqpg-backup-")) for _ in range(2)]
    yield made
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_backup_that_is_brought_back(original: EmbeddedServer, folders: list[Path]) -> None:
    dsn = original.dsn("broker")
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t")
        mq.send("t", "before the backup")
        for folder in folders:
            backup(original, folder)
        mq.send("t", "after the backup")
    appender = Appender(Options(dsn))
    with connect(dsn, "test") as connection:
        appender.turn(connection)
        appender.end()
    original.stop()

    # Started like a server after a crash: the same timeline, and nothing in it tells.
    with EmbeddedServer(folders[0]) as copy:
        with connect(copy.dsn("broker"), "test") as connection:
            with pytest.raises(errors.RestoredCluster, match="a backup was brought back"):
                appender.turn(connection)
            assert Appender(Options(dsn), threading.Event()).turn(connection) >= 0
        assert migrate.problems(copy.dsn("broker")) == []
    # Recovered to the end of the backup: a new timeline.
    with (folders[1] / "pgdata" / "postgresql.auto.conf").open("a") as file:
        file.write(_RECOVERY)
    (folders[1] / "pgdata" / "recovery.signal").touch()
    with EmbeddedServer(folders[1]) as copy:
        dsn = copy.dsn("broker")
        with psycopg.connect(dsn, autocommit=True) as connection:  # the server answers before it is promoted
            eventually(lambda: connection.execute("select not pg_is_in_recovery()").fetchone() == (True,))
        with mqpg.connect(dsn) as mq, pytest.raises(errors.RestoredCluster, match="promoted or recovered"):
            mq.append()
        assert any("promoted or recovered" in line for line in migrate.problems(dsn))
        assert "incarnation 2" in migrate.adopt(dsn)
        with mqpg.connect(dsn) as mq:
            assert mq.append() == 1
        with psycopg.connect(dsn) as connection:
            assert connection.execute("select timeline from mqpg.broker").fetchone() == ("00000002",)
