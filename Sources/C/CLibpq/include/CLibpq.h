/* PostgreSQL's client library, loaded while the program runs: a machine without a shared store needs none of it. The
   declarations are those of libpq 14 (PostgreSQL 14, "libpq — C Library"); a program that is linked against the library
   needs its headers to build. */
#ifndef CLIBPQ_H
#define CLIBPQ_H
#include <stddef.h>

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

typedef struct pgNotify {
    char *relname;
    int be_pid;
    char *extra;
    struct pgNotify *next;
} PGnotify;

typedef struct {
    char *keyword;
    char *envvar;
    char *compiled;
    char *val;
    char *label;
    char *dispchar;
    int dispsize;
} PQconninfoOption;

/* ConnStatusType, PostgresPollingStatusType, ExecStatusType: the values that are used. */
enum { CLIBPQ_CONNECTION_OK = 0, CLIBPQ_CONNECTION_BAD = 1 };
enum { CLIBPQ_POLLING_FAILED = 0, CLIBPQ_POLLING_READING = 1, CLIBPQ_POLLING_WRITING = 2, CLIBPQ_POLLING_OK = 3 };
enum {
    CLIBPQ_COMMAND_OK = 1,
    CLIBPQ_TUPLES_OK = 2,
    CLIBPQ_FATAL_ERROR = 7,
    CLIBPQ_PIPELINE_SYNC = 10,
    CLIBPQ_PIPELINE_ABORTED = 11,
};
/* The fields of an error (PQresultErrorField). */
enum { CLIBPQ_FIELD_SQLSTATE = 'C', CLIBPQ_FIELD_MESSAGE = 'M' };

/* Loads libpq.so.5 once. Not safe for several threads at the same time.
   Returns NULL, or a text that says why it cannot be used. */
const char *clibpq_load(void);

PQconninfoOption *clibpq_parse(const char *text, char **error);
PQconninfoOption *clibpq_options(PGconn *connection);
void clibpq_free_options(PQconninfoOption *options);
void clibpq_free(void *memory);

PGconn *clibpq_start(const char *const *keywords, const char *const *values);
int clibpq_poll(PGconn *connection);
int clibpq_status(PGconn *connection);
int clibpq_socket(PGconn *connection);
int clibpq_process(PGconn *connection);
const char *clibpq_error(PGconn *connection);
void clibpq_finish(PGconn *connection);
/* From now on *warned is set to 1 by a warning 01000: a COMMIT that was cancelled while it waited for a standby. */
void clibpq_watch(PGconn *connection, int *warned);

int clibpq_set_nonblocking(PGconn *connection);
int clibpq_enter_pipeline(PGconn *connection);
int clibpq_sync(PGconn *connection);
int clibpq_send_prepare(PGconn *connection, const char *name, const char *sql);
/* All parameters and results in binary form. */
int clibpq_send_prepared(
    PGconn *connection, const char *name, int count, const char *const *values, const int *lengths, const int *formats);
int clibpq_flush(PGconn *connection);
int clibpq_consume(PGconn *connection);
int clibpq_is_busy(PGconn *connection);
PGnotify *clibpq_notification(PGconn *connection);

PGresult *clibpq_result(PGconn *connection);
int clibpq_result_status(const PGresult *result);
const char *clibpq_result_field(const PGresult *result, int field);
void clibpq_clear(PGresult *result);
int clibpq_rows(const PGresult *result);
int clibpq_columns(const PGresult *result);
unsigned clibpq_type(const PGresult *result, int column);
const char *clibpq_value(const PGresult *result, int row, int column);
int clibpq_length(const PGresult *result, int row, int column);
int clibpq_is_null(const PGresult *result, int row, int column);
#endif
