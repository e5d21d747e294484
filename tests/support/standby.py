"""A primary with a synchronous standby, both real, of which the primary is destroyed."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil
import psycopg

from mqpg.embedded import EmbeddedServer, find_binaries
from mqpg.embedded.programs import current_account
from tests.support.servers import server_folder
from tests.support.waiting import eventually

__all__ = ["Pair", "asynchronous", "follows", "replicated"]

_NAME = "standby"


class Pair:
    """Commits on the primary wait until the standby has them on disk."""

    def __init__(self, primary: EmbeddedServer, standby: EmbeddedServer) -> None:
        self.primary, self._standby = primary, standby

    def freeze_replication(self) -> None:
        """Send the standby nothing any more, so no commit that waits for it returns."""
        with psycopg.connect(self.primary.dsn()) as conn:
            (sender,) = conn.execute("select pid from pg_stat_replication").fetchall()
        os.kill(sender[0], signal.SIGSTOP)

    def destroy_primary(self) -> None:
        """Kill all its processes with SIGKILL and delete its data."""
        assert self.primary.pid is not None
        postmaster = psutil.Process(self.primary.pid)
        for process in [postmaster, *postmaster.children()]:
            with suppress(psutil.NoSuchProcess):  # a session may have ended since it was listed
                process.kill()
        eventually(lambda: self.primary.pid is None)
        self.primary.destroy()

    @property
    def standby(self) -> EmbeddedServer:
        """The standby, or what was promoted."""
        return self._standby

    def promote(self) -> EmbeddedServer:
        """Make the standby the primary."""
        with psycopg.connect(self._standby.dsn(), autocommit=True) as conn:
            assert conn.execute("select pg_promote()").fetchone() == (True,)
        return self._standby


@contextmanager
def replicated(primary: EmbeddedServer, port: int | None = None) -> Iterator[Pair]:
    """Make a standby of a running server by pg_basebackup, and make its commits wait for it.

    The standby is destroyed at the end, also if it was promoted. With `port` it listens there.
    """
    with ExitStack() as stack:
        standby = _copy(primary, port, stack)
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            conn.execute(f"alter system set synchronous_standby_names = '{_NAME}'")
            conn.execute("select pg_reload_conf()")
            state = "select sync_state from pg_stat_replication"
            eventually(lambda: conn.execute(state).fetchall() == [("sync",)])
        yield Pair(primary, standby)


@contextmanager
def asynchronous(primary: EmbeddedServer) -> Iterator[Pair]:
    """Make a standby of a running server that no commit waits for."""
    with replicated(primary) as made:
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            conn.execute("alter system set synchronous_standby_names = ''")
            conn.execute("select pg_reload_conf()")
        yield made


def follows(primary: EmbeddedServer) -> bool:
    """Whether the standby has everything that the primary has written."""
    with psycopg.connect(primary.dsn()) as conn:
        row = conn.execute("select replay_lsn >= pg_current_wal_lsn() from pg_stat_replication").fetchone()
    return bool(row and row[0])


def _copy(primary: EmbeddedServer, port: int | None, stack: ExitStack) -> EmbeddedServer:
    folder = server_folder()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    account, data = current_account(), folder / "pgdata"
    data.mkdir(mode=0o700)
    account.give(data)
    shutil.copy(primary.directory / "password", folder / "password")
    backup = [str(find_binaries() / "pg_basebackup"), "-D", str(data), "-R", "-c", "fast"]
    account.run([*backup, "-d", f"{primary.dsn()}?application_name={_NAME}"])
    standby = EmbeddedServer(folder, port=port)
    stack.callback(standby.destroy)
    standby.start()
    return standby
