"""The producer-side journal: ids of all lives differ, and a line cut short counts for nothing."""

from __future__ import annotations

from pathlib import Path

from lab.chaos.journal import Journal, Note, read_notes


def test_notes_come_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 2)
    ids = journal.tried("t1", "events-1", 3)
    journal.done("t1", "events-1", ids)
    others = journal.tried("t2", "relay-1", 1)
    journal.undone("t2", "relay-1", others)
    journal.close()
    assert list(read_notes(tmp_path)) == [
        Note("tried", "t1", "events-1", ids[0], ids[-1]),
        Note("done", "t1", "events-1", ids[0], ids[-1]),
        Note("tried", "t2", "relay-1", others[0], others[0]),
        Note("undone", "t2", "relay-1", others[0], others[0]),
    ]


def test_no_id_is_used_twice_by_another_life_or_producer(tmp_path: Path) -> None:
    journals = [Journal(tmp_path, producer) for producer in (1, 1, 2, 2, 4)]
    ids = [one for journal in journals for one in journal.tried("t1", "events-1", 1000)]
    for journal in journals:
        journal.close()
    assert len(set(ids)) == len(ids)
    assert max(ids) < 2**53  # a number of JSON that every reader keeps exactly


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1)
    ids = journal.tried("t1", "events-1", 1)
    journal.close()
    (file,) = tmp_path.glob("notes-*")
    with file.open("a") as cut:
        cut.write(f"done t1 events-1 {ids[0]} {ids[0] // 10}")
    assert [note.word for note in read_notes(tmp_path)] == ["tried"]
