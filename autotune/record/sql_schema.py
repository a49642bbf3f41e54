"""The tables of records in an SQL database, their versions, and the way from each to the next."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from autotune.errors import RecordError

if TYPE_CHECKING:
    import sqlalchemy as sa

# Two processes that open a new database at once must not both make its tables.
SCHEMA_LOCK = 0x6175746F74756E65
_BATCH = 1000
# The columns of version 1, and how many tables of others an error names.
_FIRST = {"number", "key", "row"}
_NAMED = 3


def digest_of(key: str) -> str:
    """Return what a key is looked up by: keys may be longer than an index entry may be."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Return the table of lines and that of the version, in their present form."""
    import sqlalchemy as sa

    # SQLite counts up by itself only in a column of this very type.
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    # No number is given twice, also not that of a last row which was deleted.
    trials = sa.Table(
        "trials",
        metadata,
        sa.Column("number", number, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.String(64), nullable=False, index=True),
        sa.Column("row", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    version = sa.Table("autotune_schema", metadata, sa.Column("version", sa.Integer))
    return trials, version


def version_of(connection: sa.Connection, url: str) -> int:
    """Return the version of the tables of a database; 0 if there are none yet.

    Version 1 has no table of the version, and a table ``trials`` of number, key and row. Version 2
    has a digest in place of the key; in version 3 no number is used twice.

    Raises:
        RecordError: a newer version of this package wrote the tables, or another program did.
    """
    import sqlalchemy as sa

    _, version = tables(sa.MetaData())
    inspected = sa.inspect(connection)
    names = set(inspected.get_table_names())
    if "autotune_schema" in names:
        found = connection.execute(sa.select(version.c.version)).scalar() or 0
        if found > LATEST:
            raise RecordError(
                f"database {url}: its schema has version {found}, expected at most {LATEST}; a "
                "newer autotune wrote it: upgrade this one, or give another database"
            )
        return int(found)
    if "trials" in names and {c["name"] for c in inspected.get_columns("trials")} == _FIRST:
        return 1
    # A server's database is shared by many; a file of SQLite is somebody's.
    if "trials" in names or (names and connection.dialect.name == "sqlite"):
        some = ", ".join(sorted(names)[:_NAMED])
        raise RecordError(
            f"database {url}: it is no database of trials, its tables are others' ({some}); give "
            "one that autotune wrote, or a new one"
        )
    return 0


def migrate(connection: sa.Connection, url: str) -> None:
    """Make or migrate the tables of a database, within the caller's transaction.

    Raises:
        RecordError: see `version_of`.
    """
    import sqlalchemy as sa

    metadata = sa.MetaData()
    _, version = tables(metadata)
    found = version_of(connection, url)
    if found == LATEST:
        return
    if found == 0:
        metadata.create_all(connection)
    elif found == 1:
        _digests_for_keys(connection, metadata)
    elif found == 2 and connection.dialect.name == "sqlite":
        _numbers_once(connection, metadata)
    connection.execute(sa.delete(version))
    connection.execute(sa.insert(version).values(version=LATEST))


def _numbers_once(connection: sa.Connection, metadata: sa.MetaData) -> None:
    """Migrate version 2 in SQLite, where the number of a deleted last row was reused, to 3."""
    import sqlalchemy as sa

    connection.execute(sa.text("DROP INDEX IF EXISTS ix_trials_digest"))
    connection.execute(sa.text("ALTER TABLE trials RENAME TO trials_2"))
    metadata.create_all(connection)
    columns = "number, digest, row"
    copied = f"INSERT INTO trials ({columns}) SELECT {columns} FROM trials_2 ORDER BY number"
    connection.execute(sa.text(copied))
    connection.execute(sa.text("DROP TABLE trials_2"))


def _digests_for_keys(connection: sa.Connection, metadata: sa.MetaData) -> None:
    """Migrate version 1 to the latest."""
    import sqlalchemy as sa

    connection.execute(sa.text("DROP INDEX IF EXISTS by_key"))
    connection.execute(sa.text("ALTER TABLE trials RENAME TO trials_1"))
    metadata.create_all(connection)
    trials = metadata.tables["trials"]
    names = ("number", "key", "row")
    old = sa.table("trials_1", *[sa.column(name) for name in names])
    last = -1
    while True:
        page = sa.select(old).where(old.c.number > last).order_by(old.c.number).limit(_BATCH)
        rows = connection.execute(page).all()
        if not rows:
            break
        last = rows[-1].number
        # They get new numbers, in their order: a sequence does not see those that are given.
        made = [{"digest": digest_of(one.key), "row": one.row} for one in rows]
        connection.execute(sa.insert(trials), made)
    connection.execute(sa.text("DROP TABLE trials_1"))


LATEST = 3
