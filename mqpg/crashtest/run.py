"""The whole crash test: two runs without a crash, one for each crash point, and the report."""

from __future__ import annotations

import queue
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from shutil import copy2
from typing import Any

import psycopg

from mqpg.connection.dsn import to_sqlalchemy
from mqpg.crashtest import snapshot
from mqpg.crashtest.advice import advise, advise_before
from mqpg.crashtest.compare import volatile
from mqpg.crashtest.fault_injector import Point, Sent
from mqpg.crashtest.fork_server import ForkServer
from mqpg.crashtest.judge import Clean, audit, judge_consumer, judge_producer
from mqpg.crashtest.options import CannotTry, Options, Outcome, Result, Tried
from mqpg.crashtest.points import choose
from mqpg.crashtest.process_run import Bench, Ran
from mqpg.crashtest.scratch import Copy, Scratch
from mqpg.values.errors import ConfigurationError

__all__ = ["run", "try_in"]

_ATTEMPTS = 3
Report = Callable[[int, int], None]
Consent = Callable[[dict[str, Any]], None]


def _nothing(*arguments: object) -> None:
    pass


def run(options: Options, report: Report = _nothing, consent: Consent = _nothing) -> Result:
    """Try every crash point of a consumer or a producer.

    Args:
        options: What is tried, and how.
        report: Called after each point with how many are done, and with how many there are.
        consent: Called with what the target is, before it is called for the first time. It raises to end
            the test.

    Raises:
        CannotTry: The code fails without a crash, or no message reaches it.
        ConfigurationError: The target or a set-up cannot be used, or there is no server.
        ConnectionFailed: The server does not answer.
    """
    started = time.monotonic()
    with ForkServer(options.jobs) as fork_server, Scratch(options.dsn) as scratch:
        result = try_in(scratch, fork_server, options, report, consent)
    result.seconds = time.monotonic() - started
    return result


def try_in(
    scratch: Scratch, fork_server: ForkServer, options: Options, report: Report = _nothing, consent: Consent = _nothing
) -> Result:
    """Do what `run` does with these databases and this fork server, which may have been used before."""
    with ExitStack() as stack:
        benches = [stack.enter_context(closing(Bench(scratch, fork_server, options, n))) for n in range(options.jobs)]
        test = _Test(scratch, options, benches[0])
        consent(test.about)
        return test.try_all(benches, report)


class _Test:
    def __init__(self, scratch: Scratch, options: Options, bench: Bench) -> None:
        self._scratch, self._options = scratch, options
        self.about = self._set_up(bench)
        self._is_consumer = self.about["kind"] == "consumer"

    def try_all(self, benches: list[Bench], report: Report) -> Result:
        ran, after = self._clean(benches[0], audited=True)
        again, after_again = self._clean(benches[0], audited=False)
        template = self._snapshot(self._scratch.template)
        if after == template and not ran.outside:
            raise CannotTry(
                f"{self._options.target} leaves nothing that a crash could lose: no message, row, line of a file or "
                "call to the outside"
            )
        self._clean_state = Clean(template, after, volatile(after, after_again), ran.outside)
        chosen, left_out = choose(ran.injector.trace, self._options.points)
        result = Result(self._options.target, self.about["kind"], ran.injector.trace, left_out=left_out)
        result.notes = self._notes(ran, again, left_out)
        result.tried = self._try_each(chosen, benches, report)
        result.advice = advise(result, ran, self.about)
        return result

    def _set_up(self, bench: Bench) -> dict[str, Any]:
        template = self._scratch.template
        for path in self._options.files:
            copy2(path, template.folder)
        wrong: list[ConfigurationError] = []

        def make_tables(about: dict[str, Any]) -> None:
            try:
                self._run_sql(about, template)
            except ConfigurationError as error:
                wrong.append(error)
                raise OSError from error  # without an answer the process ends

        ran = bench.set_up(template, make_tables)
        if wrong:
            raise wrong[0]
        if ran.failed is not None:
            raise ConfigurationError(ran.failed.partition(": ")[2] if ran.usage else f"the set-up fails: {ran.failed}")
        if not ran.about or ran.status:
            raise ConfigurationError(f"the set-up ended with status {ran.status}: {ran.said[-500:]}")
        self._scratch.uses_second = self._uses_second(ran.about)
        return ran.about

    def _run_sql(self, about: dict[str, Any], template: Copy) -> None:
        for name in [name for name in self._options.setups if name.endswith(".sql")]:
            try:
                self._run_file(Path(name).read_text(encoding="utf-8"), about, template)
            except (psycopg.Error, sqlite3.Error, OSError, UnicodeError) as error:
                raise ConfigurationError(f"--setup {name}: {error}") from error

    def _run_file(self, text: str, about: dict[str, Any], template: Copy) -> None:
        if about.get("database") == "sqlite":
            with closing(sqlite3.connect(template.folder / about["file"])) as local:
                local.executescript(text)
            return
        second = self._uses_second(about)
        with psycopg.connect(self._scratch.dsn(template.second if second else template.broker)) as conn:
            conn.execute(text.encode())

    def _uses_second(self, about: dict[str, Any]) -> bool:
        own = about.get("database") == "postgresql" or about.get("wants") == "producer"
        return own or bool(self._options.databases)

    def _clean(self, bench: Bench, *, audited: bool) -> tuple[Ran, snapshot.Snapshot]:
        """Run without a crash. The second run only shows what differs between two, so it is not audited."""
        copy = self._scratch.copy()
        ran = self._work(bench, copy, None)
        if ran.failed is not None or ran.stuck or ran.raised:
            why = ran.failed or (ran.raised[0] if ran.raised else "it does not finish in time")
            words = " ".join(why.split())  # a server's error shows the statement on lines of its own
            raise CannotTry(f"{self._options.target} fails without a crash: {words}{advise_before(ran)}")
        if not ran.calls:
            raise CannotTry(
                f"no message reaches {self._options.target}: give some by --message or --messages, "
                "or send them in a function of --setup"
            )
        if not self._is_consumer:
            self._finish(bench, copy)
        elif audited:
            wrong = audit(self._scratch.dsn(copy.broker), self.about["group"], self._journals(copy))
            if wrong:
                raise CannotTry(f"{self._options.target} is wrong without a crash: {'; '.join(map(str, wrong))}")
        after = self._snapshot(copy)
        self._scratch.drop(copy)
        return ran, after

    def _work(self, bench: Bench, copy: Copy, point: Point | None) -> Ran:
        if self._is_consumer:
            return bench.run(copy, "consume", self.about, point, database=self.about["database"])
        return bench.run(copy, "produce", self.about, point, wants=self.about["wants"])

    def _finish(self, bench: Bench, copy: Copy) -> Ran:
        """Compensate what a producer left."""
        return bench.run(
            copy, "finish", self.about, ledgers=self._places(copy, "mqpg_ledger"), outboxes=self._outboxes(copy)
        )

    def _try_each(self, chosen: list[tuple[Sent, Point]], benches: list[Bench], report: Report) -> list[Tried]:
        free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for bench in benches:
            free.put(bench)
        done = 0

        def attempt(sent: Sent, point: Point) -> Tried:
            bench = free.get()
            try:
                return self._try(bench, sent, point)
            finally:
                free.put(bench)

        tried = []
        with ThreadPoolExecutor(len(benches)) as pool:
            try:
                for one in pool.map(lambda pair: attempt(*pair), chosen):
                    tried.append(one)
                    done += 1
                    report(done, len(chosen))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return tried

    def _try(self, bench: Bench, sent: Sent, point: Point) -> Tried:
        for _ in range(_ATTEMPTS):
            copy = self._scratch.copy()
            try:
                ran = self._work(bench, copy, point)
                if ran.injector.fired:
                    return Tried(point, sent, *self._judged(bench, copy, ran))
            finally:
                self._scratch.drop(copy)
        return Tried(point, sent, Outcome.NOT_REACHED, ("the code did not send this statement again",))

    def _judged(self, bench: Bench, copy: Copy, ran: Ran) -> tuple[Outcome, tuple[str, ...]]:
        runs = [ran]
        if self._is_consumer:
            if ran.injector.dead:
                runs.append(self._work(bench, copy, None))
            broker = snapshot.with_schemas(self._scratch.dsn(copy.broker))
            wrong = audit(broker, self.about["group"], self._journals(copy))
            outcome, details = judge_consumer(self._clean_state, runs, self._snapshot(copy), wrong)
        else:
            runs.append(self._finish(bench, copy))
            outcome, details = judge_producer(self._clean_state, runs, self._snapshot(copy), self._undecided(copy))
        return outcome, tuple(details)

    def _snapshot(self, copy: Copy) -> snapshot.Snapshot:
        return snapshot.take(self._scratch.dsns(copy), copy.folder)

    def _journals(self, copy: Copy) -> dict[str, str]:
        """Where the consumer keeps its journal, if that is not the broker's database."""
        kind = self.about.get("database")
        if kind == "sqlite":
            return {self.about["group"]: f"sqlite:///{copy.folder / self.about['file']}"}
        return {self.about["group"]: snapshot.with_schemas(self._scratch.dsn(copy.second))} if kind else {}

    def _places(self, copy: Copy, table: str) -> list[str]:
        """The URLs of the scratch databases that have this table."""
        found = [
            to_sqlalchemy(dsn).render_as_string(hide_password=False)
            for dsn in map(snapshot.with_schemas, self._scratch.dsns(copy))
            if snapshot.has_table(dsn, table)
        ]
        for path in sorted(copy.folder.rglob("*")):
            if path.is_file() and path.read_bytes()[:16] == b"SQLite format 3\0":
                with closing(sqlite3.connect(path)) as conn:
                    if conn.execute("select 1 from sqlite_master where name = ?", [table]).fetchone():
                        found.append(f"sqlite:///{path}")
        return found

    def _outboxes(self, copy: Copy) -> list[tuple[str, str]]:
        with psycopg.connect(self._scratch.dsn(copy.broker)) as conn:
            groups = [row[0] for row in conn.execute("select name from mqpg.producer_group order by 1")]
        return [(url, groups[0]) for url in self._places(copy, "mqpg_outbox") if groups]

    def _undecided(self, copy: Copy) -> int:
        with psycopg.connect(self._scratch.dsn(copy.broker)) as conn:
            row = conn.execute("select count(*) from mqpg.half_pending").fetchone()
        return int(row[0]) if row else 0

    def _notes(self, first: Ran, second: Ran, left_out: int) -> list[str]:
        notes = []
        if left_out:
            notes.append(f"{left_out} crash points were left out, because --points is {self._options.points}")
        if [one.key for one in first.injector.trace] != [one.key for one in second.injector.trace]:
            notes.append("two runs without a crash sent different statements, so some points may not be reached again")
        for name, columns in sorted(self._clean_state.ignored.items()):
            notes.append(f"{name}: {', '.join(sorted(columns))} differs between two runs without a crash: not compared")
        return notes
