#include <sqlite3.h>

/* sqlite3_db_config is variadic, which Swift cannot call: a word in double quotes is a name, never a text. */
static inline void csqlite_forbid_quoted_texts(sqlite3 *database) {
    sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DDL, 0, (void *)0);
    sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DML, 0, (void *)0);
}

/* SQLITE_TRANSIENT is a cast that Swift does not import: SQLite copies the bytes. A text ends at its first NUL. */
static inline int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text) {
    return sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT);
}

/* Without bytes an empty blob, not NULL. */
static inline int csqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int count) {
    if (count == 0) return sqlite3_bind_zeroblob(statement, index, 0);
    return sqlite3_bind_blob(statement, index, bytes, count, SQLITE_TRANSIENT);
}
