#include "CLibpq.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void (*notice_receiver)(void *, const PGresult *);

/* Each function of the library that is used: result, name, parameters. */
#define FUNCTIONS(F) \
    F(int, PQlibVersion, (void)) \
    F(PQconninfoOption *, PQconninfoParse, (const char *, char **)) \
    F(PQconninfoOption *, PQconninfo, (PGconn *)) \
    F(void, PQconninfoFree, (PQconninfoOption *)) \
    F(void, PQfreemem, (void *)) \
    F(PGconn *, PQconnectStartParams, (const char *const *, const char *const *, int)) \
    F(int, PQconnectPoll, (PGconn *)) \
    F(int, PQstatus, (const PGconn *)) \
    F(int, PQsocket, (const PGconn *)) \
    F(int, PQbackendPID, (const PGconn *)) \
    F(char *, PQerrorMessage, (const PGconn *)) \
    F(void, PQfinish, (PGconn *)) \
    F(notice_receiver, PQsetNoticeReceiver, (PGconn *, notice_receiver, void *)) \
    F(int, PQsetnonblocking, (PGconn *, int)) \
    F(int, PQenterPipelineMode, (PGconn *)) \
    F(int, PQpipelineSync, (PGconn *)) \
    F(int, PQsendPrepare, (PGconn *, const char *, const char *, int, const unsigned *)) \
    F(int, PQsendQueryPrepared, \
      (PGconn *, const char *, int, const char *const *, const int *, const int *, int)) \
    F(int, PQflush, (PGconn *)) \
    F(int, PQconsumeInput, (PGconn *)) \
    F(int, PQisBusy, (PGconn *)) \
    F(PGnotify *, PQnotifies, (PGconn *)) \
    F(PGresult *, PQgetResult, (PGconn *)) \
    F(int, PQresultStatus, (const PGresult *)) \
    F(char *, PQresultErrorField, (const PGresult *, int)) \
    F(void, PQclear, (PGresult *)) \
    F(int, PQntuples, (const PGresult *)) \
    F(int, PQnfields, (const PGresult *)) \
    F(unsigned, PQftype, (const PGresult *, int)) \
    F(char *, PQgetvalue, (const PGresult *, int, int)) \
    F(int, PQgetlength, (const PGresult *, int, int)) \
    F(int, PQgetisnull, (const PGresult *, int, int))

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct { FUNCTIONS(MEMBER) } pq;
static int is_loaded;
static char failure[256];

static void *find(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol && !failure[0])
        snprintf(failure, sizeof failure, "libpq.so.5 has no %s: install version 14 or later of the package libpq5", name);
    return symbol;
}

const char *clibpq_load(void) {
    if (is_loaded) return NULL;
    failure[0] = 0;
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "the library libpq.so.5 cannot be loaded: install the package libpq5";
/* ISO C has no conversion of an object's pointer to a function's; POSIX requires it (dlsym). */
#define FIND(result, name, parameters) \
    { void *symbol = find(library, #name); memcpy(&pq.name, &symbol, sizeof symbol); }
    FUNCTIONS(FIND)
    if (failure[0]) return failure;
    if (pq.PQlibVersion() < 140000) return "libpq.so.5 is older than version 14: update the package libpq5";
    is_loaded = 1;
    return NULL;
}

PQconninfoOption *clibpq_parse(const char *text, char **error) { return pq.PQconninfoParse(text, error); }
PQconninfoOption *clibpq_options(PGconn *connection) { return pq.PQconninfo(connection); }
void clibpq_free_options(PQconninfoOption *options) { pq.PQconninfoFree(options); }
void clibpq_free(void *memory) { pq.PQfreemem(memory); }

PGconn *clibpq_start(const char *const *keywords, const char *const *values) {
    return pq.PQconnectStartParams(keywords, values, 1);
}
int clibpq_poll(PGconn *connection) { return pq.PQconnectPoll(connection); }
int clibpq_status(PGconn *connection) { return pq.PQstatus(connection); }
int clibpq_socket(PGconn *connection) { return pq.PQsocket(connection); }
int clibpq_process(PGconn *connection) { return pq.PQbackendPID(connection); }
const char *clibpq_error(PGconn *connection) { return pq.PQerrorMessage(connection); }
void clibpq_finish(PGconn *connection) { pq.PQfinish(connection); }

static void noticed(void *warned, const PGresult *result) {
    const char *state = pq.PQresultErrorField(result, CLIBPQ_FIELD_SQLSTATE);
    if (state && strcmp(state, "01000") == 0) *(int *)warned = 1;
}
void clibpq_watch(PGconn *connection, int *warned) { pq.PQsetNoticeReceiver(connection, noticed, warned); }

int clibpq_set_nonblocking(PGconn *connection) { return pq.PQsetnonblocking(connection, 1); }
int clibpq_enter_pipeline(PGconn *connection) { return pq.PQenterPipelineMode(connection); }
int clibpq_sync(PGconn *connection) { return pq.PQpipelineSync(connection); }
int clibpq_send_prepare(PGconn *connection, const char *name, const char *sql) {
    return pq.PQsendPrepare(connection, name, sql, 0, NULL);
}
int clibpq_send_prepared(
    PGconn *connection, const char *name, int count, const char *const *values, const int *lengths, const int *formats) {
    return pq.PQsendQueryPrepared(connection, name, count, values, lengths, formats, 1);
}
int clibpq_flush(PGconn *connection) { return pq.PQflush(connection); }
int clibpq_consume(PGconn *connection) { return pq.PQconsumeInput(connection); }
int clibpq_is_busy(PGconn *connection) { return pq.PQisBusy(connection); }
PGnotify *clibpq_notification(PGconn *connection) { return pq.PQnotifies(connection); }

PGresult *clibpq_result(PGconn *connection) { return pq.PQgetResult(connection); }
int clibpq_result_status(const PGresult *result) { return pq.PQresultStatus(result); }
const char *clibpq_result_field(const PGresult *result, int field) { return pq.PQresultErrorField(result, field); }
void clibpq_clear(PGresult *result) { pq.PQclear(result); }
int clibpq_rows(const PGresult *result) { return pq.PQntuples(result); }
int clibpq_columns(const PGresult *result) { return pq.PQnfields(result); }
unsigned clibpq_type(const PGresult *result, int column) { return pq.PQftype(result, column); }
const char *clibpq_value(const PGresult *result, int row, int column) { return pq.PQgetvalue(result, row, column); }
int clibpq_length(const PGresult *result, int row, int column) { return pq.PQgetlength(result, row, column); }
int clibpq_is_null(const PGresult *result, int row, int column) { return pq.PQgetisnull(result, row, column); }
