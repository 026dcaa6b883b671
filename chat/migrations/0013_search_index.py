"""The words of search entries, where each engine keeps them; and their vectors, where some are made.

SQLite: a full-text table and a table of vectors, under the entry's id. A trigger empties both with
the entry, whatever deletes it. PostgreSQL: columns of the entry itself. MariaDB: nothing.
"""

from django.db import migrations

# The tokenizer splits at blanks and folds nothing: words come ready from memory.words, and "_" only
# stands in what names an owner.
SQLITE = (
    "CREATE VIRTUAL TABLE chat_search_words USING fts5("
    "length UNINDEXED, own, previous, next, day, owner, tokenize = \"ascii tokenchars '_'\")",
    "CREATE TABLE chat_search_vectors ("
    "entry_id integer PRIMARY KEY, model varchar(100) NOT NULL, vector blob NOT NULL)",
    "CREATE TRIGGER chat_search_entry_gone AFTER DELETE ON chat_searchentry BEGIN"
    " DELETE FROM chat_search_words WHERE rowid = old.id;"
    " DELETE FROM chat_search_vectors WHERE entry_id = old.id;"
    " END",
)
SQLITE_BACK = (
    "DROP TRIGGER chat_search_entry_gone",
    "DROP TABLE chat_search_vectors",
    "DROP TABLE chat_search_words",
)
POSTGRESQL = (
    "ALTER TABLE chat_searchentry ADD COLUMN words tsvector, ADD COLUMN length integer,"
    " ADD COLUMN vector bytea, ADD COLUMN vector_model varchar(100)",
    "CREATE INDEX chat_search_words ON chat_searchentry USING gin (words)",
)
POSTGRESQL_BACK = (
    "DROP INDEX chat_search_words",
    "ALTER TABLE chat_searchentry DROP COLUMN words, DROP COLUMN length, DROP COLUMN vector,"
    " DROP COLUMN vector_model",
)


def run(schema_editor, by_vendor):
    for statement in by_vendor.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(statement)


def add_index(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE, "postgresql": POSTGRESQL})


def drop_index(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE_BACK, "postgresql": POSTGRESQL_BACK})


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0012_reviews'),
    ]

    operations = [migrations.RunPython(add_index, drop_index)]
