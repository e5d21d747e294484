"""What is probably wrong with the user's code, in the user's words, and what to do about it."""

from __future__ import annotations

from typing import Any

from mqpg.connection.lent import REFUSED
from mqpg.crashtest.fault_injector import Moment, Sent
from mqpg.crashtest.options import Outcome, Result
from mqpg.crashtest.process_run import Ran

__all__ = ["advise", "advise_before"]

_BAD = (Outcome.LOST, Outcome.DOUBLED, Outcome.DIFFERS, Outcome.ERROR, Outcome.STUCK)


def advise(result: Result, clean: Ran, about: dict[str, Any]) -> list[str]:
    """Name what is wrong, one line for each kind of mistake, by the run without a crash.

    Empty if every point came out once.
    """
    if not any(one.outcome in _BAD for one in result.tried):
        return []
    if result.kind == "producer":
        return _for_producer(result, clean)
    if about["where"] == "external":
        found = [_threads(clean), _external(about), _swallowed(result) if about["ack"] != "receive" else None]
    else:
        found = [_commits(clean), _connections(clean), _threads(clean), _swallowed(result), _outside(clean)]
    named = [line for line in found if line]
    return named or [_attempts(about)]


def advise_before(ran: Ran) -> str:
    """Name what makes a handler fail without a crash: a sentence with a space in front, or nothing."""
    raised = " ".join(ran.raised)
    line = _commits(ran) or (("commit() forbidden" in raised or REFUSED in raised) and _COMMITS)
    if "UndefinedTable" in raised or "no such table" in raised:
        line = line or "Make your tables by --setup."
    return f". {line}" if line else ""


_COMMITS = (
    "The effect would be committed without the acknowledgement, so a crash in between would repeat it. Leave COMMIT "
    "and ROLLBACK to mqpg. For a part that may fail use a savepoint: with conn.transaction()."
)


def _commits(clean: Ran) -> str | None:
    ends = [one for one in clean.injector.trace if one.by_handler and one.ours and one.ends_transaction]
    if not ends:
        return None
    return f"The handler ends the transaction itself ({_words(ends[0])}). {_COMMITS}"


def _connections(clean: Ran) -> str | None:
    own = [one for one in clean.injector.trace if one.by_handler and not one.ours and one.writes]
    if not own:
        return None
    return (
        f"The handler writes on a connection of its own ({_words(own[0])}). That is committed apart from the "
        "acknowledgement, so a crash in between repeats it or loses it. Use the connection that the handler is given, "
        "or declare the other database by database=…, or make the effect safe to repeat and say effect='external'."
    )


def _threads(clean: Ran) -> str | None:
    late = [one for one in clean.injector.trace if not one.by_handler and not one.ours and one.writes]
    if not clean.left and not late:
        return None
    what = f"thread or task {clean.left[0]}" if clean.left else _words(late[0])
    return (
        f"Work continues after the handler has returned ({what}). A return means that the message is done, so a crash "
        "loses the rest. Finish the work before you return. For more work at a time use concurrency=."
    )


def _swallowed(result: Result) -> str | None:
    for one in result.tried:
        if one.point.moment is Moment.REFUSED and one.outcome in _BAD:
            return (
                f"The handler swallows an error: PostgreSQL refused a statement ({_words(one.sent)}), and the message "
                "was acknowledged without its effect. Let the exception out, so that the message is tried again, or "
                "raise mqpg.Retry."
            )
    return None


def _outside(clean: Ran) -> str | None:
    if not clean.outside:
        return None
    (kind, name), _ = clean.outside.most_common(1)[0]
    return (
        f"The handler has an effect outside the given connection ({kind} {name}). No transaction undoes it, so a crash "
        "before the commit repeats it. Write a row instead and let a second consumer with effect='external' do it, "
        "with message.message_id as the mark of a repetition."
    )


def _external(about: dict[str, Any]) -> str:
    if about["ack"] == "receive":
        return (
            "ack='receive' acknowledges before the handler works, so a crash loses the message. That is what it "
            "promises: at most once. For effects that must not be lost leave it out."
        )
    return (
        "effect='external' happens at least once, so a crash between the effect and its acknowledgement repeats it. "
        "Give the receiving side something by which it knows a repetition: message.message_id is the same each time. "
        "If a repetition does no harm, say --allow-doubled."
    )


def _for_producer(result: Result, clean: Ran) -> list[str]:
    sends = [one for one in clean.injector.trace if one.by_handler and "mqpg.send" in one.text.replace('"', "")]
    lines = []
    alone = next((one for one in sends if not one.in_transaction), None)
    if alone is not None:
        lines.append(
            f"The message is sent in a transaction of its own ({_words(alone)}). A crash between it and the business "
            "leaves one without the other. Where the business is in the same database, give send the connection of its "
            "transaction: mq.send(…, conn=conn). Where it is in another one, use TransactionalProducer."
        )
    if clean.outside:
        (kind, name), _ = clean.outside.most_common(1)[0]
        lines.append(
            f"The producer has an effect outside of its transaction ({kind} {name}), which no rollback undoes. "
            "Let a consumer of the message do it."
        )
    if any(one.outcome is Outcome.STUCK for one in result.tried):
        lines.append(
            "Half messages stay undecided. Give the producer group a checker that can answer: checker='url' with the "
            "ledger's address, or 'ledger' where the business is in the broker's database."
        )
    return lines or [
        "Message and business are not one unit: see the points above. Do all of it in one transaction with "
        "mq.send(…, conn=conn), or in one block of TransactionalProducer.transaction."
    ]


def _attempts(about: dict[str, Any]) -> str:
    if about.get("attempts") == 1:
        return "max_attempts=1 leaves no attempt after a crash. Allow more."
    return "The points above show where it happens. See docs/prove/crashtest.md."


def _words(sent: Sent) -> str:
    text = " ".join(sent.text.split())
    return text if len(text) <= 60 else text[:59] + "…"
