"""`python -m lab.chaos` on broken builds: the run must end invalid. Without the damage the same run is valid.

Functions are patched in the brokers' databases. Each run takes one to three minutes, so they are
left to `make test-chaos`.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from lab.chaos.names import CONSUMERS, NODES
from lab.chaos.result import Result
from lab.chaos.run import run
from lab.chaos.schedule import Options
from tests.support.broker import Session
from tests.support.mutation import mutate

pytestmark = [pytest.mark.rounds, pytest.mark.chaos, pytest.mark.timeout(900)]

OPTIONS = Options(rounds=3, interval=5.0, seed=11, rate=150.0, patience=30.0)
# What a backend did not flush itself reaches the disk ten seconds later, so a kill loses it.
LAZY: dict[str, str | int] = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
FLUSHING = replace(
    OPTIONS, protocols=("t2", "outbox", "t6", "post"), settings=LAZY, spread="all", among=("broker-1", "broker-2")
)
STOPPING = replace(
    OPTIONS, rounds=5, faults=("stop",), spread="all", among=tuple(f"consumer-{n}" for n in CONSUMERS[:2])
)


def patch(dsn: str, function: str, old: str, new: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        mutate(Session(conn), function, old, new)


def remove_the_fence(dsn: str) -> None:
    """The check-back looks into the ledger, and leaves nothing there."""
    patch(
        dsn,
        "_fence",
        "insert into mqpg.ledger (handle, entry) values (_fence.handle, 'fence') on conflict do nothing; if found then",
        "if not exists (select from mqpg.ledger l where l.handle = _fence.handle) then",
    )


def go_by_ids(dsn: str) -> None:
    """The appender takes what is above the last id that it has seen, whenever it was committed."""
    patch(
        dsn,
        "_write_offsets",
        "_new_sends(v_floor, v_newest, v_from, v_late,",
        "_new_sends(greatest(v_floor, (_write_offsets.last_tick).batch_seq), v_newest, '0', '{}',",
    )


def accept_old_receipts(dsn: str) -> None:
    """A receipt whose claim is gone is believed, although others had the messages since.

    C3 applies before it acknowledges, so no effect is lost by that. The audit of the cursors sees it.
    """
    patch(
        dsn,
        "_claim_of_receipt",
        "perform mqpg._refuse_receipt( _claim_of_receipt.receipt, v_id, v_receipt.queue_id, v_receipt.epoch);",
        "claim.epoch := v_receipt.epoch; claim.from_offset := v_receipt.from_offset;"
        " claim.to_offset := v_receipt.to_offset;",
    )


def flush_nothing(dsn: str) -> None:
    """No function waits for the disk by itself."""
    patch(dsn, "_force_sync", "begin", "begin return;")


def _run(options: Options) -> Result:
    return run(options, print)


@pytest.mark.parametrize("seed", [11, 12])
def test_without_the_fence_the_run_is_invalid(seed: int) -> None:
    result = _run(replace(OPTIONS, seed=seed, prepared=remove_the_fence))
    assert result.verdict == "invalid", result.as_json()
    assert "effect missing" in result.findings.faults


@pytest.mark.parametrize("seed", [11, 12])
def test_with_an_id_watermark_the_run_is_invalid(seed: int) -> None:
    result = _run(replace(OPTIONS, seed=seed, prepared=go_by_ids))
    assert result.verdict == "invalid", result.as_json()
    assert "effect missing" in result.findings.faults


@pytest.mark.parametrize("seed", [11, 12])
def test_with_an_unfenced_acknowledgement_the_run_is_invalid(seed: int) -> None:
    # Its cursors are soon such that C3 no longer moves, so there is no point in waiting for long.
    result = _run(replace(STOPPING, seed=seed, rounds=2, patience=15.0, prepared=accept_old_receipts))
    assert result.verdict == "invalid", result.as_json()


def test_stops_beyond_the_lease_are_valid_otherwise() -> None:
    result = _run(STOPPING)
    assert result.verdict == "valid", result.as_json()


@pytest.mark.parametrize("seed", [11, 12])
def test_without_flushes_the_run_is_invalid(seed: int) -> None:
    result = _run(replace(FLUSHING, seed=seed, prepared=flush_nothing))
    assert result.verdict == "invalid", result.as_json()


def test_the_flushes_are_enough_where_the_server_waits_for_no_disk() -> None:
    result = _run(FLUSHING)
    assert result.verdict == "valid", result.as_json()


def test_all_nodes_at_once_are_valid_otherwise() -> None:
    result = _run(replace(OPTIONS, spread="all"))
    assert result.verdict == "valid", result.as_json()
    assert {node for one in result.rounds for node in one.nodes} == set(NODES)
