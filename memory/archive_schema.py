"""The archive's tables. What was appended cannot be changed: triggers hold for every program."""

_ERASABLE = "SELECT 1 FROM sessions WHERE id = OLD.session AND name IS NULL"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Names are bytes: a name may hold what UTF-8 text cannot. A nameless session is deleted, kept for
        # its forks.
        """CREATE TABLE sessions(
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             name BLOB UNIQUE,
             parent INTEGER REFERENCES sessions(id),
             forked_at INTEGER NOT NULL DEFAULT 0,
             compartments_seen INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX sessions_by_parent ON sessions(parent)",
        "CREATE TABLE blobs(hash BLOB PRIMARY KEY, data BLOB NOT NULL)",
        """CREATE TABLE messages(
             id INTEGER PRIMARY KEY,
             session INTEGER NOT NULL REFERENCES sessions(id),
             tag INTEGER NOT NULL CHECK (tag > 0),
             key BLOB NOT NULL,
             body BLOB NOT NULL,
             content BLOB,
             blob BLOB REFERENCES blobs(hash),
             UNIQUE(session, tag),
             CHECK ((content IS NULL) <> (blob IS NULL)))""",
        "CREATE INDEX messages_by_key ON messages(session, key, tag)",
        "CREATE INDEX messages_by_blob ON messages(blob) WHERE blob IS NOT NULL",
        """CREATE TABLE compartments(
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             session INTEGER NOT NULL REFERENCES sessions(id),
             first INTEGER NOT NULL,
             last INTEGER NOT NULL,
             data BLOB NOT NULL)""",
        "CREATE INDEX compartments_by_session ON compartments(session, last)",
        *(
            statement
            for table in ("messages", "compartments")
            for statement in (
                f"""CREATE TRIGGER {table}_are_not_edited BEFORE UPDATE ON {table}
                      BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END""",
                f"""CREATE TRIGGER {table}_are_not_removed BEFORE DELETE ON {table}
                      WHEN NOT EXISTS ({_ERASABLE})
                      BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END""",
            )
        ),
        # How far each session has been indexed for search; the index itself is made where FTS5 is there.
        "CREATE TABLE indexed(session INTEGER PRIMARY KEY, tag INTEGER NOT NULL)",
    ),
)
