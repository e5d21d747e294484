"""A broker that lost the end of its log, as a promoted standby has, without a second server."""

import psycopg

from mqpg import migrate


class Standby:
    """Loses what the appender and the consumer wrote after a moment, but no send, unless it is named."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        with psycopg.connect(dsn) as conn:
            self._tick = conn.execute("select max(tick_id) from mqpg.tick").fetchone()
            self._cursors = conn.execute(
                "select subscription_id, queue_id, max(version) from mqpg.cursor group by 1, 2"
            ).fetchall()

    def promote(self, *lost: int) -> None:
        with psycopg.connect(self._dsn) as conn:
            conn.execute("delete from mqpg.consume_queue where tick_id > %s", self._tick)
            conn.execute("delete from mqpg.tick where tick_id > %s", self._tick)
            conn.execute("delete from mqpg.delayed where subscription_id <> 0")
            for cursor in self._cursors:
                conn.execute(
                    "delete from mqpg.cursor where subscription_id = %s and queue_id = %s and version > %s", cursor
                )
            conn.execute("delete from mqpg.commit_log where batch_id * 1024 = any(%s)", (list(lost),))
        migrate.adopt(self._dsn)
