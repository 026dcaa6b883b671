"""How many words stand before and after a message too, for what is indexed already as well.

SQLite: a full-text table takes no new columns, so the rows are copied into another one. PostgreSQL
counts by itself, in generated columns; its table is written anew. MariaDB: nothing.
"""

from django.db import migrations

TEXTS = ("own", "previous", "next")
STORED = (*TEXTS, "day", "owner")
COUNTED = ", ".join(
    f"CASE {name} WHEN '' THEN 0 ELSE length({name}) - length(replace({name}, ' ', '')) + 1 END"
    for name in TEXTS
)
TRIGGER = (
    "CREATE TRIGGER chat_search_entry_gone AFTER DELETE ON chat_searchentry BEGIN"
    " DELETE FROM chat_search_words WHERE rowid = old.id;"
    " DELETE FROM chat_search_vectors WHERE entry_id = old.id;"
    " END"
)


def sqlite(lengths, counted):
    """Statements that put every row into a table with these lengths in the place of the others."""
    unindexed = ", ".join(f"{name} UNINDEXED" for name in lengths)
    stored = ", ".join(STORED)
    return (
        "DROP TRIGGER chat_search_entry_gone",
        f"CREATE VIRTUAL TABLE chat_search_copy USING fts5({unindexed}, {stored},"
        " tokenize = \"ascii tokenchars '_'\")",
        f"INSERT INTO chat_search_copy (rowid, {', '.join(lengths)}, {stored})"
        f" SELECT rowid, {counted}, {stored} FROM chat_search_words ORDER BY rowid",
        "DROP TABLE chat_search_words",
        "ALTER TABLE chat_search_copy RENAME TO chat_search_words",
        TRIGGER,
    )


SQLITE = sqlite([f"{name}_length" for name in TEXTS], COUNTED)
SQLITE_BACK = sqlite(["length"], "own_length")
POSTGRESQL = (
    "ALTER TABLE chat_searchentry DROP COLUMN length, "
    + ", ".join(
        f"ADD COLUMN {name}_length integer"
        f" GENERATED ALWAYS AS (length(ts_filter(words, '{{{weight}}}'))) STORED"
        for name, weight in zip(TEXTS, "abc", strict=True)
    ),
)
POSTGRESQL_BACK = (
    "ALTER TABLE chat_searchentry ADD COLUMN length integer",
    "UPDATE chat_searchentry SET length = own_length",
    "ALTER TABLE chat_searchentry " + ", ".join(f"DROP COLUMN {name}_length" for name in TEXTS),
)


def run(schema_editor, by_vendor):
    for statement in by_vendor.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(statement)


def count_words(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE, "postgresql": POSTGRESQL})


def count_own_words_alone(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE_BACK, "postgresql": POSTGRESQL_BACK})


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0015_saved_filters"),
    ]

    operations = [migrations.RunPython(count_words, count_own_words_alone)]
