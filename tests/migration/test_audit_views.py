"""The views that the audit reads: each has the columns of its table, but not the secret ones."""

import hashlib
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

_READS = "what applications wrote: reading it needs the right to receive"
_SECRET = "handles or receipts could be computed from it"
_CHOSEN = "what applications chose: it may be an order's number or a person's name"
_RIGHTS = "copies of the rights: the view `rights` shows them"

# The columns of a table that its view leaves out, and why.
LEFT_OUT = {
    "commit_log": dict.fromkeys(["keys", "tags", "headers", "payloads"], _READS)
    | {"nonce": _SECRET, "checksum": "guesses of bodies could be tested with it"},
    "held": dict.fromkeys(["key", "tag", "headers", "payload"], _READS) | {"nonce": _SECRET},
    "dedup": {"dedup_id": _CHOSEN},
    "broker": {
        "key_hash_seed": "guesses of keys could be tested with it",
        "adoption_ticks": "only a consumer that was ahead of a broker which lost messages needs it",
    },
    "topic": dict.fromkeys(["senders", "readers"], _RIGHTS)
    | dict.fromkeys(["max_bytes", "full_of"], "say what may be sent now, and nothing of what was")
    | {"archive": "is not used any more"},
    "producer_group": {"producers": _RIGHTS},
    "subscription": {"receivers": _RIGHTS, "receipt_secrets": _SECRET},
    "cursor": {"action": "the code of a word"},
}
# The columns that a view has and its table has not, and why.
ADDED = {
    "commit_log": {
        "handle_hashes": "says whether a ledger's handle is right, and gives no handle away",
        "key_hashes": "says which messages have the same key, and gives no key away",
        "sizes": "says whether the arrays of a record batch are complete",
        "intact": "says whether the contents match their checksum",
    },
    "held": dict.fromkeys(["handle_hash", "key_hash"], "the same for one message"),
    "cursor": {"action": "the word of the code"},
    "dedup": {"dedup_hash": "says which messages have the same dedup id"},
    "topic": dict.fromkeys(["first_queues", "grown_from", "settled_batch"], "say by which number a message was placed"),
}

# Views that are computed from several tables, and what for.
COMPUTED = {"audit_unmatched": "messages that a filter does not choose, without their bodies"}

_COLUMNS = """
    select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'mqpg'::regnamespace and (
        case when %(views)s then c.relkind = 'v' and starts_with(c.relname, 'audit_') else c.relkind in ('r', 'p') end)
"""


def columns(db: Connection, *, views: bool) -> dict[str, dict[str, str]]:
    """Name and type of the columns of each audit_ view, or of each table."""
    found: dict[str, dict[str, str]] = {}
    for relation, column, kind in db.execute(_COLUMNS, {"views": views}):
        found.setdefault(relation, {})[column] = kind
    return found


def test_each_view_has_the_columns_of_its_table(db: Connection) -> None:
    views, tables = columns(db, views=True), columns(db, views=False)
    for computed in COMPUTED:
        del views[computed]
    assert len(views) > 10
    found = {name: set(kinds.items()) for name, kinds in views.items()}
    expected = {name: set(tables[name.removeprefix("audit_")].items()) for name in views}
    differences = {
        view: ({name for name, _ in expected[view] - found[view]}, {name for name, _ in found[view] - expected[view]})
        for view in views
        if found[view] != expected[view]
    }
    listed = {
        f"audit_{table}": (set(LEFT_OUT.get(table, {})), set(ADDED.get(table, {}))) for table in {*LEFT_OUT, *ADDED}
    }
    assert differences == listed


def test_hashes_of_handles_are_comparable_and_give_no_handle_away(db: Connection) -> None:
    db.execute("select mqpg.create_topic('t'), mqpg.create_producer_group('g'), mqpg.send('t', '1'::text)")
    handles = [row[0] for row in db.execute("select mqpg.prepare_batch('t', array['1', '2', '3'], 'g')")]
    db.execute(
        "insert into mqpg.held (message_id, xid, born_at, topic_id, queue_id, kind, nonce, payload) "
        "select l.batch_id * 1024 + 2, l.xid, l.born_at, l.topic_id, l.queue_id, l.kind, l.nonce, l.payloads[3] "
        "from mqpg.commit_log l where l.kind = 'h'"
    )
    hashes = [hashlib.sha256(bytes.fromhex(handle.split(".")[3])).hexdigest() for handle in handles]
    log = "select kind::text, handle_hashes from mqpg.audit_commit_log order by batch_id"
    assert db.execute(log).fetchall() == [("n", None), ("h", hashes)]
    held = db.execute("select handle_hash, row_to_json(h)::text from mqpg.audit_held h").fetchall()
    seen = " ".join(str(row) for row in db.execute("select row_to_json(l)::text from mqpg.audit_commit_log l"))
    ((handle_hash, everything),) = held
    assert handle_hash == hashes[2]
    (secret,) = db.execute("select nonce::text from mqpg.held").fetchone() or ("",)
    for hidden in (secret, secret.replace("-", ""), *(handle.split(".")[3] for handle in handles)):
        assert hidden not in everything + seen
