"""Client processes: they are started once, and get jobs that begin at the same moment."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from .jobs import Job, Result, Role
from .work import do

__all__ = ["Crew"]

_LEAD = 0.05  # seconds between the signal and the start
_ANSWER = 120.0  # seconds beyond the measured ones; a client without an answer is then dead


class Crew:
    """A pool of client processes. It is a context manager."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    def __enter__(self) -> Crew:
        self.start()
        return self

    def start(self) -> None:
        """Start the processes."""
        context = multiprocessing.get_context("spawn")
        for _ in range(self._size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def __exit__(self, *exc: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()

    def restart(self) -> None:
        """End the processes, whatever they do, and start other ones: after a job that failed."""
        for process in self._processes:
            process.kill()
        self.__exit__()
        self._processes, self._pipes = [], []
        self.start()

    @contextmanager
    def beside(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Run these jobs, which are of the background, during the block."""
        pipes = self._start(jobs)
        try:
            yield
        finally:
            for pipe in pipes:
                pipe.send("stop")
        for pipe in pipes:
            _answer(pipe)

    def _start(self, jobs: Sequence[Job]) -> list[Connection]:
        pipes = self._pipes[: len(jobs)]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        for pipe in pipes:
            _answer(pipe)
        start = time.monotonic() + _LEAD
        for pipe in pipes:
            pipe.send(start)
        return pipes

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Run the jobs at the same time.

        Returns:
            Their results, in the order of the jobs.

        Raises:
            RuntimeError: A client failed.
            TimeoutError: A client did not answer.
        """
        pipes = self._start(jobs)
        # The background continues until all others are done, because the consumers could not drain
        # otherwise.
        busy = [(p, j) for p, j in zip(pipes, jobs, strict=True) if j.role is not Role.BACKGROUND]
        results = {job: _answer(pipe, job.cell.seconds) for pipe, job in busy}
        for pipe, job in zip(pipes, jobs, strict=True):
            if job.role is Role.BACKGROUND:
                pipe.send("stop")
                results[job] = _answer(pipe)
        return [results[job] for job in jobs]


def _answer(pipe: Connection, seconds: float = 0.0) -> Any:
    if not pipe.poll(seconds + _ANSWER):
        raise TimeoutError(f"a client process did not answer within {seconds + _ANSWER:.0f} s")
    answer = pipe.recv()
    if isinstance(answer, str) and answer != "ready":
        raise RuntimeError(f"a client process failed:\n{answer}")
    return answer


def _serve(pipe: Connection) -> None:
    while True:
        try:
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(do(pipe, job))
        except Exception:  # `_answer` raises it in the main process
            pipe.send(traceback.format_exc())
