"""Later releases of mqpg that tests make up: a copy of sql/ with changes and numbered migrations."""

import re
import shutil
from pathlib import Path

from mqpg.schema.source import REVISIONS, Source

__all__ = ["HEAD", "ORIGIN", "later_release", "release_in", "release_with_steps"]

SQL = Path(__file__).parents[2] / "sql"
HEAD = Source(SQL).head

ORIGIN = f"migrations/{HEAD + 1:04}_origin.sql"

# What a next release may do: a column, another body, an argument with a default, a result with
# one more column, a function less, a view with other columns, and a new function.
_COLUMN = "alter table mqpg.commit_log add column origin text;\ncomment on column mqpg.commit_log.origin is 'Test';\n"

# An index that nobody waits for, and a back-fill in batches.
_STEPS = re.findall(r"```sql\n(.*?)```", (SQL / "migrations/README.md").read_text(), re.DOTALL)[-1]


def later_release(folder: Path, release: str = "0.2.0", *, breaking: bool = False) -> Source:
    """A release with changes of every kind.

    Args:
        folder: Where its SQL is written.
        release: Its number.
        breaking: Whether it has a third, breaking migration.
    """
    shutil.copytree(SQL, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ORIGIN).write_text(f"-- Adds commit_log.origin.\n-- breaking: no\n{_COLUMN}")
    with (folder / "tables/commit_log.sql").open("a") as file:
        file.write(_COLUMN)
    if breaking:
        text = "alter table mqpg.worker add column build text;\ncomment on column mqpg.worker.build is 'Test';\n"
        (folder / f"migrations/{HEAD + 2:04}_build.sql").write_text(f"-- breaking: yes\n{text}")
        with (folder / "tables/worker.sql").open("a") as file:
            file.write(text)
    send, receive = folder / "functions/produce/send.sql", folder / "functions/consume/receive.sql"
    _edit(send, "\nbegin\n", "\nbegin\n    -- another body\n")
    # Arguments with a default, which calls of the release before leave out.
    _edit(
        send, "deliver_at timestamptz default null\n", "deliver_at timestamptz default null, origin text default null\n"
    )
    _edit(receive, "ack text default null\n", "ack text default null, origin text default null\n")
    append = folder / "functions/append/append.sql"
    _edit(append, "(max_messages int default null)", "(max_messages int default null, reason text default null)")
    _edit(folder / "functions/common/_topic.sql", "$$\n", "$$\n-- another body\n", count=1)
    _edit(folder / "views/topics.sql", "\nselect", "\nselect\n    1 as one,", count=1)
    gone = "functions/topic/_awaits_members.sql"  # nothing needs it in this release
    text = (folder / gone).read_text()
    (folder / gone).unlink()
    renamed = text.replace("_awaits_members", "_expects_members")
    (folder / "functions/topic/_expects_members.sql").write_text(renamed)
    for path in (folder / "functions").rglob("*.sql"):
        path.write_text(path.read_text().replace("_awaits_members", "_expects_members"))
    for path in (folder / "views").rglob("*.sql"):
        path.write_text(path.read_text().replace("_awaits_members", "_expects_members"))
    return release_in(folder, release)


def release_with_steps(folder: Path, *, steps: bool = True) -> Source:
    """A release with a new table and, with `steps`, a second migration that runs outside of a transaction."""
    shutil.copytree(SQL, folder, ignore=shutil.ignore_patterns("__pycache__"))
    note = "-- Notes, for a test.\ncreate table mqpg.note (note_id int primary key, text text, length int);\n"
    comment = "comment on table mqpg.note is 'Notes, for a test';\n"
    rows = "insert into mqpg.note (note_id, text) select i, 'note ' || i from generate_series(1, 5000) i;\n"
    (folder / f"migrations/{HEAD + 1:04}_note.sql").write_text(f"{note}-- breaking: no\n{comment}{rows}")
    index = ""
    if steps:
        (folder / f"migrations/{HEAD + 2:04}_length.sql").write_text(_STEPS)
        index = "create index note_length on mqpg.note (length);\n"
    (folder / "tables/note.sql").write_text(note + index)
    _edit(folder / "manifest.txt", "tables/worker.sql\n", "tables/worker.sql\ntables/note.sql\n")
    return release_in(folder, "0.2.0")


def release_in(folder: Path, release: str) -> Source:
    """The release whose SQL is in a folder, with a revision of Alembic for each of its migrations."""
    versions = folder / "versions"
    shutil.rmtree(versions, ignore_errors=True)
    shutil.copytree(REVISIONS, versions, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (folder / "migrations").glob("*.sql"):
        shutil.copy(REVISIONS / "0001_initial.py", versions / f"{file.stem}.py")
    return Source(folder, release, versions)


def _edit(path: Path, old: str, new: str, count: int = -1) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} no longer has {old!r}"
    path.write_text(text.replace(old, new, count))
