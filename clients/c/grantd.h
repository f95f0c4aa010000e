/*
 * Tokens from grantd, the local OAuth broker. Link with -pthread, or add grantd.c to the program.
 *
 *     char token[4096];
 *     struct grantd_error error;
 *     if (grantd_get("work", token, sizeof token, &error) != 0)
 *       fprintf(stderr, "%s: %s\n", error.message, error.hint);
 *
 * The library allocates no memory: all buffers are the caller's. docs/libraries.md describes the behaviour.
 */
#ifndef GRANTD_H
#define GRANTD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* generated: begin */
/* Reasons of errors (docs/errors.md). The numbers of existing reasons do not change. */
enum grantd_reason {
  GRANTD_OK = 0,
  /* A reason that this version does not name, or an error of JSON-RPC itself: see `code`. */
  GRANTD_OTHER = 1,
  /* No account of that name, or the caller may not see it. */
  GRANTD_UNKNOWN_ACCOUNT = 10,
  /* No provider of that name in the configuration. */
  GRANTD_UNKNOWN_PROVIDER = 11,
  /* No such login, or it ended more than ten minutes ago. */
  GRANTD_UNKNOWN_LOGIN = 12,
  /* The policy does not allow this caller to do that. */
  GRANTD_NOT_PERMITTED = 13,
  /* The grant has ended; the user must sign in again. */
  GRANTD_LOGIN_REQUIRED = 14,
  /* The person or the provider refused the login. */
  GRANTD_LOGIN_DENIED = 15,
  /* The login was cancelled. */
  GRANTD_LOGIN_CANCELLED = 16,
  /* The login was not completed in time. */
  GRANTD_LOGIN_EXPIRED = 17,
  /* Another login has to end first. */
  GRANTD_LOGIN_IN_PROGRESS = 18,
  /* The address does not complete a login: forged, used before, late or unreadable. */
  GRANTD_INVALID_CALLBACK = 19,
  /* The provider cannot be reached or is failing; the broker tries again. */
  GRANTD_TEMPORARILY_UNAVAILABLE = 20,
  /* The request's deadline passed first; the operation continues. */
  GRANTD_TIMED_OUT = 21,
  /* The provider refuses this client or its settings; an admin must change them. */
  GRANTD_PROVIDER_MISCONFIGURED = 22,
  /* The provider's answer is not valid. */
  GRANTD_PROVIDER_ERROR = 23,
  /* The account was not granted a scope or resource that was asked for. */
  GRANTD_SCOPE_NOT_GRANTED = 24,
  /* The provider cannot do that. */
  GRANTD_UNSUPPORTED_BY_PROVIDER = 25,
  /* The provider refused the registration's fields. */
  GRANTD_REGISTRATION_REJECTED = 26,
  /* The caller asked too often. */
  GRANTD_RATE_LIMITED = 27,
  /* A limit on connections, requests or logins is reached. */
  GRANTD_OVERLOADED = 28,
  /* The state cannot be written to disk; nothing was lost, and no new token is returned. */
  GRANTD_STORE_FAILURE = 29,
  /* The broker is stopping. */
  GRANTD_SHUTTING_DOWN = 30,
  /* The new configuration has an error; the old one stays active. */
  GRANTD_INVALID_CONFIGURATION = 31,
  /* The backup cannot be opened: another secret, damaged, cut off, or of a later version. */
  GRANTD_INVALID_BACKUP = 32,
  /* The broker cannot write where the store's key is kept; the old key stays. */
  GRANTD_KEY_NOT_REPLACEABLE = 33,
  /* The broker is locked, or its releases are held: no token is returned. */
  GRANTD_LOCKED = 34,
  /* No broker listens at the socket. */
  GRANTD_NOT_RUNNING = 200,
  /* Another user than root, this user or the owner of the socket's folder listens at the socket. */
  GRANTD_FOREIGN_SERVER = 201,
  /* The connection ended before the answer; the request may have been carried out. */
  GRANTD_DISCONNECTED = 202,
  /* The answer is not valid JSON-RPC, lacks a required member, or is too long. */
  GRANTD_BAD_ANSWER = 203,
};
/* generated: end */

/* An error. The texts are UTF-8, end with a zero byte and are cut at the end of the array. They never contain a token. */
struct grantd_error {
  /* The reason as a number, or GRANTD_OTHER. */
  enum grantd_reason kind;
  /* The number of JSON-RPC; 0 for an error that the library found. */
  int code;
  /* Seconds after which another attempt is useful; negative if unknown. */
  double retry_after;
  /* The reason as a word (docs/errors.md); empty for an error of JSON-RPC itself. */
  char reason[64];
  /* For users; its words may change. */
  char message[512];
  /* The user's next step. */
  char hint[512];
};

/* A client, which keeps one connection for all threads. Initialise it by grantd_init; its members are private. */
struct grantd_client {
  pthread_mutex_t lock;
  pthread_cond_t idle;
  const char *path;
  char *memory;
  size_t size, filled, queued;
  struct grantd_waiter *waiting, *reader, *sender;
  uint64_t last, connection;
  int descriptor, pid, box, is_ended, is_reading, is_sending, is_long;
  char lines[2][4096];
};

/* A request for a token. Members that are zero have the broker's defaults: initialise it with { .account = "work" }. */
struct grantd_request {
  const char *account;
  /* The scopes of the token, if fewer than granted (RFC 6749 §6). */
  const char *const *scopes;
  size_t scope_count;
  /* The resource that the token is for (RFC 8707). */
  const char *resource;
  /* Seconds that the token must still be valid, and seconds to wait for a refresh (30, at most 300). */
  double min_ttl, timeout;
};

/* A token. The strings are in the buffer that was passed to grantd_token; they are empty if absent. */
struct grantd_token {
  /* Empty if the provider uses sessions; then `cookie` is set. */
  const char *access_token;
  const char *token_type;
  const char *cookie;
  const char *account;
  const char *provider;
  /* For grantd_report_rejected. */
  int64_t generation;
  /* Unix seconds; negative if the provider gave no lifetime. */
  int64_t expires_at;
};

/*
 * `memory` receives the answers and must last as long as the client. Its size is the largest answer that is accepted; 64 KiB
 * are enough for tokens. `socket` is the path of the broker's socket; NULL: GRANTD_SOCKET, then the user's broker, then the
 * system's. The call sends nothing.
 */
void grantd_init(struct grantd_client *client, void *memory, size_t size, const char *socket);

/*
 * Gets an access token that is valid now. All text of the answer is written to `buffer`, which holds the request first; 64 KiB
 * are enough. Returns 0, or -1 with `error`. Threads may call it at once, each with a separate buffer. Signals do not end it.
 */
int grantd_token(
  struct grantd_client *client, const struct grantd_request *request, char *buffer, size_t size, struct grantd_token *token,
  struct grantd_error *error);

/*
 * Reports that a server answered 401 to the token of that generation. Sets `current` (unless NULL) to the generation of the
 * current token. Returns 0, or -1 with `error`. `timeout`: seconds, or 0.
 */
int grantd_report_rejected(
  struct grantd_client *client, const char *account, int64_t generation, double timeout, int64_t *current,
  struct grantd_error *error);

/* Closes the connection, and overwrites the memory. No other thread may use the client. grantd_init makes it usable again. */
void grantd_close(struct grantd_client *client);

/* Overwrites a buffer that contains a token. */
void grantd_wipe(void *buffer, size_t size);

/* Gets a token by a client of the process, and copies only the access token, with a zero byte. Returns 0, or -1. */
int grantd_get(const char *account, char *token, size_t size, struct grantd_error *error);

#ifdef __cplusplus
}
#endif

#endif
