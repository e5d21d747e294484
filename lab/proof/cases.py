"""The cases of `make prove`: the protocol as it is, and the protocol with one rule removed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """One run of SPIN.

    Attributes:
        options: Macros of half_message.pml to define.
        size: Number of producers and number of checkers.
        claim: Name of an LTL formula of the model; None: assertions only.
    """

    name: str
    what: str
    options: tuple[str, ...] = ()
    size: tuple[int, int] = (1, 2)
    claim: str | None = None
    fails: bool = False
    big: bool = False

    @property
    def found(self) -> str:
        """What it means that SPIN found a trail; empty if it must find none."""
        if not self.fails:
            return ""
        return "reached" if any(option.startswith("SHOWN") for option in self.options) else "counterexample"

    @property
    def macros(self) -> list[str]:
        """Arguments of spin that define the macros."""
        named = [f"N={self.size[0]}", f"K={self.size[1]}", *self.options]
        named += ["LIVE", f"CLAIM_{self.claim}"] if self.claim else []
        return [f"-D{macro}" for macro in named]


_ALL = ("P_ATOMIC", "P_EARLY", "P_FIRST", "P_FINAL")

_SAFE = [
    Case("all", "atomicity, no early sight, first decision, finality; ledger in another database", _ALL, (2, 2)),
    Case("all-here", "the same; ledger in the broker's database", (*_ALL, "HERE"), (2, 2)),
    Case("recoveries", "the same; two recoveries at once", (*_ALL, "R=2")),
    Case("all-batch", "the same; one more caller decides both half messages at once", (*_ALL, "BATCH"), (2, 1)),
    Case("admin", "the first decision remains while an administrator decides anything", ("P_FIRST", "ADMIN")),
    Case("admin-here", "the same; ledger in the broker's database", ("P_FIRST", "ADMIN", "HERE")),
    Case("admin-batch", "the same; two callers decide both half messages at once",
         ("P_FIRST", "ADMIN", "R=0", "BATCH"), (2, 0)),
]  # fmt: skip

_LIVE = [
    Case("decided", "every half is decided in the end", ("P_FIRST",), claim="decided"),
    Case("decided-two", "the same with two producers", ("P_FIRST",), (2, 1), "decided"),
    Case("decided-here", "the same; ledger in the broker's database", ("P_FIRST", "HERE"), claim="decided"),
    Case("delivered", "what committed locally is delivered in the end", ("P_FIRST",), claim="delivered"),
    Case("delivered-two", "the same with two producers", ("P_FIRST",), (2, 1), "delivered"),
    Case("delivered-here", "the same; ledger in the broker's database", ("P_FIRST", "HERE"), claim="delivered"),
    Case("no-checker", "delivered by recovery alone, without a compensator", ("P_FIRST",), (1, 0), "delivered"),
    Case("no-recovery", "delivered by the compensator alone", ("P_FIRST", "R=0"), (1, 1), "delivered"),
]

_REACHED = [
    Case("late", "a late local transaction fails on the key", ("SHOWN=1",), fails=True),
    Case("open", "an open local transaction makes the verdict wait", ("SHOWN=2",), fails=True),
]

_MUTANTS = [
    Case("no-fence", "the checker reads the ledger and leaves no fence", ("P_ATOMIC", "NO_FENCE"), fails=True),
    Case("time-out", "a time-out instead of the fence", ("P_ATOMIC", "TIMEOUT"), fails=True),
    Case("last-writer", "the last decision wins", ("P_FIRST", "ADMIN", "LAST_WRITER"), fails=True),
    Case("commit-first", "commit() before the local commit", ("P_EARLY", "COMMIT_FIRST"), fails=True),
    Case("guess", "a lost answer to the local COMMIT counts as a rollback", ("P_ATOMIC", "GUESS"), fails=True),
    Case("no-check-back", "no compensator", ("P_FIRST",), (1, 0), "decided", fails=True),
    Case("async-prepare", "prepare() answers before it is on disk", ("P_ATOMIC", "PREPARE_ASYNC"), fails=True),
    Case("async-local", "the local commit answers before it is on disk", ("P_EARLY", "LOCAL_ASYNC"), fails=True),
    Case("verdict-unflushed", "a commit verdict on a row that may not be on disk",
         ("P_EARLY", "VERDICT_UNFLUSHED"), fails=True),
    Case("fence-unflushed", "a rollback verdict on a fence that may not be on disk",
         ("P_ATOMIC", "FENCE_UNFLUSHED"), fails=True),
    Case("batch-writes-over", "a decision over a whole batch wins over earlier ones",
         ("P_FIRST", "ADMIN", "R=0", "BATCH", "BATCH_UPSERT"), (2, 0), fails=True),
    Case("batch-claims-all", "who decides a whole batch does not look which decisions are its own",
         ("P_FIRST", "ADMIN", "R=0", "BATCH", "BATCH_KEEPS"), (2, 0), fails=True),
    Case("recover-unflushed", "recovery sends what may not be on disk",
         ("P_EARLY", "RECOVER_UNFLUSHED"), fails=True),
]  # fmt: skip

_BIG = [
    Case("decided-four", "every half is decided in the end; two of each", ("P_FIRST",), (2, 2), "decided", big=True),
    Case("delivered-four", "what committed locally is delivered in the end; two of each", ("P_FIRST",), (2, 2),
         "delivered", big=True),
]  # fmt: skip

CASES = [*_SAFE, *_LIVE, *_REACHED, *_MUTANTS, *_BIG]
