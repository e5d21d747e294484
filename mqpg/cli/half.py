"""`mqpg half …`: undecided half messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Annotated, NoReturn

import typer

import mqpg
from mqpg.cli.connecting import broker, call, rows
from mqpg.cli.ledger import urls_of
from mqpg.cli.options import Dsn, Json, JsonResult, print_result, print_rows, printable, warn_of_password
from mqpg.status.finding import Row
from mqpg.status.half_messages import UNDECIDED, Rows, asked, bodies, parked_because, parks_again
from mqpg.values.choices import Decision
from mqpg.values.handle import parse_handle
from mqpg.values.messages import Outcome
from mqpg.values.words import counted

__all__ = ["app"]

app = typer.Typer(help="List and decide half messages that are still undecided.", no_args_is_help=True)

_COLUMNS = ["state", "producer_group", "topic", "key", "age", "next_check", "checks", "reason", "handle"]
_LIST = f"""
    select h.*, h.check_at <= clock_timestamp() as is_due,
        case when h.parked_at is null then 'pending' else 'parked' end as state,
        date_trunc('second', clock_timestamp() - h.prepared_at)::text as age, case
            when h.parked_at is not null then 'never'
            when h.check_at <= clock_timestamp()
                then 'overdue for ' || date_trunc('second', clock_timestamp() - h.check_at)::text
            else 'in ' || date_trunc('second', h.check_at - clock_timestamp())::text
        end as next_check
    from ({UNDECIDED}) as h
    where (%(group)s::text is null or h.producer_group = %(group)s) and (h.parked_at is not null or not %(parked)s)
    order by h.prepared_at limit %(limit)s
"""
_LOST_COLUMNS = ["message_id", "topic", "handle", "new_handle", "outcome"]

Handle = Annotated[str, typer.Argument(help="The handle, as `mqpg half list` prints it.")]


@app.command("list")
def list_some(
    group: Annotated[str | None, typer.Option("--group", help="Only half messages of this producer group.")] = None,
    parked: Annotated[
        bool, typer.Option("--parked", help="Only half messages that are parked, because their checks are used up.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most this number of half messages.")] = 100,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """List undecided half messages, the oldest first.

    A pending one is checked again. A parked one is checked no longer: decide it. Keys are shown to
    roles that may read the messages.
    """
    with broker(dsn) as mq:
        ask = partial(rows, mq)
        all_of_them = rows(mq, _LIST, {"group": group, "parked": parked, "limit": limit + 1})
        found = _with_keys(ask, all_of_them[:limit])
        lines = [] if json else [*_explained(found, parked), *_reasons(ask, found)]
    if len(all_of_them) > limit:
        lines.insert(0, f"only the oldest {limit:,}: --limit lists more")
    if json or found:
        print_rows(({name: one[name] for name in one if name != "is_due"} for one in found), _COLUMNS, as_json=json)
    for line in lines if not json else ():
        typer.echo(printable(line))


def _with_keys(ask: Rows, found: list[Row]) -> list[Row]:
    """The half messages with their keys, where the role may read them."""
    ids = [named[1] if (named := parse_handle(one["handle"])) else -1 for one in found]
    known = bodies(ask, ids, 0)
    return [one | {"key": known.get(message_id, {}).get("key")} for one, message_id in zip(found, ids, strict=True)]


def _explained(found: list[Row], only_parked: bool) -> Iterator[str]:
    """What the list says, and what to do."""
    parked = sum(one["state"] == "parked" for one in found)
    if not found:
        yield "no half message is parked" if only_parked else "every half message is decided"
    if len(found) > parked:
        yield f"{len(found) - parked} pending: mqpg why HANDLE says what one waits for"
    if parked:
        yield (
            f"{parked} parked, to which no answer came: mqpg trace HANDLE shows the payload of one, mqpg half settle "
            "HANDLE commit|rollback --reason WHY decides it, mqpg half rearm HANDLE has it checked again"
        )


def _reasons(ask: Rows, found: list[Row]) -> Iterator[str]:
    """Why they are parked or overdue, once for each producer group."""
    waiting = [one for one in found if one["state"] == "parked" or one["is_due"]]
    if not waiting:
        return
    known = asked(ask, [one["producer_group"] for one in waiting])
    firsts = {(one["producer_group"], one["state"]): one for one in reversed(waiting)}
    for (group, state), half in sorted(firsts.items(), key=str):
        producer, in_vain = known[group].producer, known[group].in_vain
        if group is None:
            yield "the producer group of some was dropped, so nobody is asked about them: decide them"
        elif state == "parked":
            yield f"producer group {group}: {parked_because(half, producer)}"
            if (again := parks_again(producer)) is not None:
                yield f"    {again}"
        elif producer and in_vain:
            ledger = producer["checker_target"]
            yield f"producer group {group}: its ledger {ledger} was {in_vain}"
            yield f"    Make the database of the ledger {ledger} answer. Its compensator then asks it again by itself."


@app.command()
def settle(
    handle: Handle,
    verdict: Annotated[Decision, typer.Argument(help="commit or rollback.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; stored with the decision.")],
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Decide a half message by hand.

    Exit status 1 if it was decided otherwise before, or if its handle is unknown.
    """
    with broker(dsn) as mq:
        outcome = mq.settle(handle, verdict, reason)
    agrees = outcome.removeprefix("already_").startswith(verdict.replace("back", ""))
    if json or agrees:
        print_result("settle", as_json=json, handle=handle, verdict=verdict, reason=reason, outcome=str(outcome))
    if outcome is Outcome.UNKNOWN:
        _fail(f"no half message has the handle {handle}")
    if not agrees:
        before = outcome.removeprefix("already_").replace("_", " ")
        _fail(f"half message {handle} was {before} before, and the first decision remains")


def _fail(why: str) -> NoReturn:
    typer.echo(f"mqpg: {printable(why)}", err=True)
    raise typer.Exit(1)


@app.command()
def rearm(handle: Handle, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Start the check-backs of a parked half message again, counting from 0."""
    call("rearm", **locals())


@app.command()
def recover(
    ledger: Annotated[
        str,
        typer.Option(
            "--ledger",
            help="The producers' ledger: a SQLAlchemy URL, or the NAME of a variable MQPG_LEDGER_<NAME>.",
            callback=warn_of_password,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what is lost.")] = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Find what the broker has lost of committed transactions, and send it again.

    A promoted asynchronous standby or a restored copy may have lost half messages. Those that the
    ledger keeps (keep_messages) are prepared and committed again, each once. It may be repeated,
    and run while producers work.

    Exit status 1 if something stays lost.
    """
    urls, found = urls_of(ledger, "--ledger"), []
    with broker(dsn) as mq:
        for one in urls:
            # It sends nothing of its own, so it needs no producer group.
            with closing(mqpg.TransactionalProducer(mq, group="", ledger=one)) as producer:
                found += producer.recover_lost(dry_run=dry_run)
    again = sum(one.new_handle is not None for one in found)
    if json or found:
        print_rows([asdict(one) for one in found], _LOST_COLUMNS, as_json=json)
    if not json:
        name = "the ledger" if "://" in ledger else f"ledger {ledger}"
        typer.echo(f"{name}: {_recovery_sentence(len(found), again, dry_run)}")
    if again < len(found):
        raise typer.Exit(1)


def _recovery_sentence(lost: int, again: int, dry_run: bool) -> str:
    if not lost:
        return "the broker has lost no message"
    if dry_run:
        return f"the broker has lost {counted(lost, 'message')}"
    return f"sent {counted(again, 'message')} again, of {lost:,} that the broker had lost"
