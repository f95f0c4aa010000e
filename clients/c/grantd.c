#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "grantd.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SYSTEM_PATH "/run/grantd/grantd.sock"
#define START_SYSTEM "sudo systemctl start grantd.socket"
#define START_USER "systemctl --user start grantd.socket"
/* Seconds that the broker's queue of new connections may be full, and that a request may take to be sent. */
#define CONNECT_SECONDS 10
/* The broker's own limit if a request names none, and how much longer the library waits for the broker's answer. */
#define DEFAULT_SECONDS 30.0
#define GRACE_SECONDS 5.0
#define LONGEST_PATH sizeof(((struct sockaddr_un *)0)->sun_path)
#define DEEPEST 64
#define SHARED_BYTES 65536
#define REPORT_BYTES 8192

/* generated: begin */
static const struct reason_name {
  const char *name;
  int reason;
} reason_names[] = {
  {"unknown_account", GRANTD_UNKNOWN_ACCOUNT},
  {"unknown_provider", GRANTD_UNKNOWN_PROVIDER},
  {"unknown_login", GRANTD_UNKNOWN_LOGIN},
  {"not_permitted", GRANTD_NOT_PERMITTED},
  {"login_required", GRANTD_LOGIN_REQUIRED},
  {"login_denied", GRANTD_LOGIN_DENIED},
  {"login_cancelled", GRANTD_LOGIN_CANCELLED},
  {"login_expired", GRANTD_LOGIN_EXPIRED},
  {"login_in_progress", GRANTD_LOGIN_IN_PROGRESS},
  {"invalid_callback", GRANTD_INVALID_CALLBACK},
  {"temporarily_unavailable", GRANTD_TEMPORARILY_UNAVAILABLE},
  {"timed_out", GRANTD_TIMED_OUT},
  {"provider_misconfigured", GRANTD_PROVIDER_MISCONFIGURED},
  {"provider_error", GRANTD_PROVIDER_ERROR},
  {"scope_not_granted", GRANTD_SCOPE_NOT_GRANTED},
  {"unsupported_by_provider", GRANTD_UNSUPPORTED_BY_PROVIDER},
  {"registration_rejected", GRANTD_REGISTRATION_REJECTED},
  {"rate_limited", GRANTD_RATE_LIMITED},
  {"overloaded", GRANTD_OVERLOADED},
  {"store_failure", GRANTD_STORE_FAILURE},
  {"shutting_down", GRANTD_SHUTTING_DOWN},
  {"invalid_configuration", GRANTD_INVALID_CONFIGURATION},
  {"invalid_backup", GRANTD_INVALID_BACKUP},
  {"key_not_replaceable", GRANTD_KEY_NOT_REPLACEABLE},
  {"locked", GRANTD_LOCKED},
  {"not_running", GRANTD_NOT_RUNNING},
  {"foreign_server", GRANTD_FOREIGN_SERVER},
  {"disconnected", GRANTD_DISCONNECTED},
  {"bad_answer", GRANTD_BAD_ANSWER},
};
/* generated: end */

/* ---- errors */

static int fail(struct grantd_error *error, int kind, const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));

static int fail(struct grantd_error *error, int kind, const char *hint, const char *format, ...) {
  memset(error, 0, sizeof *error);
  error->kind = kind;
  error->retry_after = -1;
  for (size_t i = 0; i < sizeof reason_names / sizeof *reason_names; i++)
    if (reason_names[i].reason == kind) snprintf(error->reason, sizeof error->reason, "%s", reason_names[i].name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  snprintf(error->hint, sizeof error->hint, "%s", hint);
  return -1;
}

static int bad(struct grantd_error *error, const char *text) {
  return fail(error, GRANTD_BAD_ANSWER, "Run `grantctl doctor`.", "the broker's answer %s", text);
}

static int late(struct grantd_error *error) {
  return fail(error, GRANTD_TIMED_OUT, "Try again.", "the broker did not answer in time");
}

static int lost(struct grantd_error *error) {
  return fail(error, GRANTD_DISCONNECTED, "Try again.", "the broker closed the connection");
}

void grantd_wipe(void *buffer, size_t size) { explicit_bzero(buffer, size); }

/* ---- JSON. A text ends with a zero byte; functions return the position behind a value, or NULL. */

static const char *blank(const char *at) { return at + strspn(at, " \t\r\n"); }

static const char *skip_string(const char *at) {
  if (*at++ != '"') return NULL;
  for (; *at != '"'; at++) {
    if ((unsigned char)*at < ' ') return NULL;
    if (*at != '\\') continue;
    at++;
    if (*at == 'u') {
      if (strspn(at + 1, "0123456789abcdefABCDEF") < 4) return NULL;
      at += 4;
    } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
      return NULL;
    }
  }
  return at + 1;
}

static const char *digits(const char *at) {
  size_t count = strspn(at, "0123456789");
  return count ? at + count : NULL;
}

static const char *skip_number(const char *at) {
  if (*at == '-') at++;
  at = *at == '0' ? at + 1 : digits(at);
  if (at && *at == '.') at = digits(at + 1);
  if (at && (*at == 'e' || *at == 'E')) at = digits(at + 1 + (at[1] == '+' || at[1] == '-'));
  return at;
}

static const char *skip_value(const char *at, int depth) {
  at = blank(at);
  if (*at == '"') return skip_string(at);
  if (*at == '-' || (*at >= '0' && *at <= '9')) return skip_number(at);
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++)
    if (!strncmp(at, words[i], strlen(words[i]))) return at + strlen(words[i]);
  if ((*at != '{' && *at != '[') || depth == 0) return NULL;
  char open = *at, end = open == '{' ? '}' : ']';
  at = blank(at + 1);
  if (*at == end) return at + 1;
  for (;;) {
    if (open == '{') {
      at = skip_string(blank(at));
      if (!at || *(at = blank(at)) != ':') return NULL;
      at++;
    }
    at = skip_value(at, depth - 1);
    if (!at) return NULL;
    at = blank(at);
    if (*at == end) return at + 1;
    if (*at++ != ',') return NULL;
  }
}

static int is_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at) {
    int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : (*at & 0xf0) == 0xe0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
    if (more < 0) return 0;
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf0 && at[1] < 0x90) ||
        (*at == 0xf4 && at[1] >= 0x90))
      return 0;
    for (at++; more > 0; more--, at++)
      if ((*at & 0xc0) != 0x80) return 0;
  }
  return 1;
}

/* The value of a member of an object in a valid text; NULL: it has none, or is not an object. */
static const char *member(const char *object, const char *name) {
  if (!object || *(object = blank(object)) != '{') return NULL;
  const char *at = blank(object + 1);
  while (*at == '"') {
    const char *key = at + 1, *end = skip_string(at);
    const char *value = blank(blank(end) + 1);
    if ((size_t)(end - 1 - key) == strlen(name) && !memcmp(key, name, strlen(name))) return strncmp(value, "null", 4) ? value : NULL;
    at = blank(skip_value(value, DEEPEST));
    if (*at == ',') at = blank(at + 1);
  }
  return NULL;
}

static unsigned hex4(const char *at) {
  char four[5] = {at[0], at[1], at[2], at[3], 0};
  return (unsigned)strtoul(four, NULL, 16);
}

/* Writes a character as UTF-8; the number of bytes. A character that C or UTF-8 does not have becomes U+FFFD. */
static size_t put(char *to, unsigned character) {
  if (character == 0 || (character >= 0xd800 && character < 0xe000)) character = 0xfffd;
  if (character < 0x80) return *to = (char)character, 1;
  size_t count = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  static const unsigned leads[] = {0xc0, 0xe0, 0xf0};
  for (size_t i = count - 1; i > 0; i--, character >>= 6) to[i] = (char)(0x80 | (character & 63));
  *to = (char)(leads[count - 2] | character);
  return count;
}

/* Decodes the next character of a string in a valid text to `to`; the number of bytes, 0 at the end of the string. */
static size_t next_character(const char **from, char *to) {
  const char *at = *from;
  if (*at == '"') return 0;
  if (*at != '\\') {
    *to = *at;
    *from = at + 1;
    return 1;
  }
  *from = at + 2;
  static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
  const char *found = strchr(names, at[1]);
  if (at[1] != 'u') return *to = found ? values[found - names] : at[1], 1;
  unsigned character = hex4(at + 2);
  *from = at + 6;
  if (character >= 0xd800 && character < 0xdc00 && at[6] == '\\' && at[7] == 'u') {
    unsigned low = hex4(at + 8);
    if (low >= 0xdc00 && low < 0xe000) {
      character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
      *from = at + 12;
    }
  }
  return put(to, character);
}

/* Copies a string value to an array and cuts it between two characters. */
static void copy_string(char *to, size_t size, const char *value) {
  size_t length = 0;
  if (value && *value++ == '"') {
    char character[4];
    for (;;) {
      size_t count = next_character(&value, character);
      if (count == 0 || length + count >= size) break;
      memcpy(to + length, character, count);
      length += count;
    }
    /* The array may end in the middle of a character of several bytes. */
    size_t start = length;
    while (start > 0 && ((unsigned char)to[start - 1] & 0xc0) == 0x80) start--;
    if (start > 0) {
      unsigned char lead = (unsigned char)to[start - 1];
      size_t whole = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      if (lead >= 0x80 && length - (start - 1) < whole) length = start - 1;
    }
  }
  to[length] = 0;
}

/* Decodes a string value where it is: it only gets shorter. An empty string if there is none. */
static const char *in_place(char *value) {
  static const char none[] = "";
  if (!value || *value != '"') return none;
  const char *from = value + 1;
  char *to = value, character[4];
  for (size_t count; (count = next_character(&from, character)) > 0; to += count) memcpy(to, character, count);
  *to = 0;
  return value;
}

/* An integer of at least 0; -1: it is absent or not one. */
static int64_t integer(const char *value) {
  if (!value || *value < '0' || *value > '9') return -1;
  errno = 0;
  char *end;
  long long number = strtoll(value, &end, 10);
  return errno || *end == '.' || *end == 'e' || *end == 'E' ? -1 : number;
}

/* ---- requests */

struct text {
  char *to;
  size_t size, length;
  int is_cut;
};

static void add(struct text *text, const char *bytes, size_t count) {
  if (text->is_cut || count > text->size - text->length) {
    text->is_cut = 1;
    return;
  }
  memcpy(text->to + text->length, bytes, count);
  text->length += count;
}

static void add_word(struct text *text, const char *word) { add(text, word, strlen(word)); }

static void add_string(struct text *text, const char *string) {
  add_word(text, "\"");
  for (; *string; string++) {
    char escaped[8];
    if (*string == '"' || *string == '\\') {
      add(text, "\\", 1);
      add(text, string, 1);
    } else if ((unsigned char)*string < ' ') {
      snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)*string);
      add_word(text, escaped);
    } else {
      add(text, string, 1);
    }
  }
  add_word(text, "\"");
}

/* Without printf's %f, which writes the decimal point of the locale. */
static void add_seconds(struct text *text, const char *name, double seconds) {
  if (seconds == 0) return;
  char number[48];
  double size = seconds < 0 ? -seconds : seconds;
  long long thousandths = size < 1e12 ? (long long)(size * 1000 + 0.5) : 1000000000000000LL;
  snprintf(number, sizeof number, "%s%lld.%03lld", seconds < 0 ? "-" : "", thousandths / 1000, thousandths % 1000);
  add_word(text, name);
  add_word(text, number);
}

static void begin(struct text *text, uint64_t id, const char *method, const char *account) {
  char number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)id);
  add_word(text, "{\"jsonrpc\":\"2.0\",\"id\":");
  add_word(text, number);
  add_word(text, ",\"method\":\"");
  add_word(text, method);
  add_word(text, "\",\"params\":{\"account\":");
  add_string(text, account);
}

/* ---- the socket */

struct place {
  const char *path, *starts;
  int is_named;
  char user[LONGEST_PATH + 1];
};

static void choose(struct place *place, const char *named) {
  const char *folder = getenv("XDG_RUNTIME_DIR");
  int length = folder && *folder == '/' ? snprintf(place->user, sizeof place->user, "%s/grantd/grantd.sock", folder)
    : snprintf(place->user, sizeof place->user, "/run/user/%u/grantd/grantd.sock", (unsigned)getuid());
  struct stat status;
  int has_user = length < (int)sizeof place->user && stat(place->user, &status) == 0;
  if (!named || !*named) named = getenv("GRANTD_SOCKET");
  place->is_named = named && *named;
  place->path = place->is_named ? named : has_user ? place->user : SYSTEM_PATH;
  place->starts = !strcmp(place->path, place->user) ? START_USER
    : place->is_named && !strcmp(place->path, SYSTEM_PATH) ? START_SYSTEM : START_USER "` or `" START_SYSTEM;
}

/* The owner of the socket's folder; -1 if others can write to the folder, or others than root can replace it. */
static int64_t folder_owner(const char *path) {
  char folder[LONGEST_PATH + 1];
  snprintf(folder, sizeof folder, "%s", path);
  struct stat own, above;
  char *slash = strrchr(folder, '/');
  if (!slash || slash == folder) return -1;
  *slash = 0;
  if (lstat(folder, &own) != 0) return -1;
  slash = strrchr(folder, '/');
  if (!slash) return -1;
  slash[slash == folder] = 0;
  if (lstat(folder, &above) != 0) return -1;
  return S_ISDIR(own.st_mode) && above.st_uid == 0 && !((own.st_mode | above.st_mode) & 022) ? (int64_t)own.st_uid : -1;
}

/* A descriptor of a server that was checked, or -1. */
static int open_socket(const char *named, struct grantd_error *error) {
  struct place place;
  choose(&place, named);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int descriptor = -1, connected = -1;
  errno = ENOENT;
  if (strlen(place.path) < sizeof address.sun_path) {
    strcpy(address.sun_path, place.path);
    descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = CONNECT_SECONDS};
    if (descriptor >= 0) setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    while (descriptor >= 0 && (connected = connect(descriptor, (struct sockaddr *)&address, sizeof address)) != 0 && errno == EINTR);
  }
  if (connected != 0) {
    int reason = errno;
    if (descriptor >= 0) close(descriptor);
    if (reason == EACCES || reason == EPERM)
      return fail(
        error, GRANTD_NOT_PERMITTED, "An administrator can allow it with `group` in [socket] of the configuration.",
        "this user has no access to %s", place.path);
    if (reason == EAGAIN) return fail(error, GRANTD_TIMED_OUT, "Try again.", "the broker at %s accepts no connection", place.path);
    char hint[200];
    snprintf(hint, sizeof hint, "Start it with `%s`.", place.starts);
    return fail(error, GRANTD_NOT_RUNNING, hint, "no broker listens at %s", place.path);
  }
  struct ucred server;
  socklen_t length = sizeof server;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &server, &length) != 0) {
    close(descriptor);
    return lost(error);
  }
  if (!place.is_named && server.uid != 0 && server.uid != geteuid() && folder_owner(place.path) != (int64_t)server.uid) {
    close(descriptor);
    return fail(
      error, GRANTD_FOREIGN_SERVER, "If that is intended, name the socket in GRANTD_SOCKET.",
      "the server at %s belongs to another user (uid %u)", place.path, (unsigned)server.uid);
  }
  return descriptor;
}

/*
 * ---- the connection. One of the threads that wait reads for all, and one sends, also the lines of threads that come
 * during that time. A thread whose answer was read is woken by its own condition, and takes no lock of the others.
 */

enum state { WAITING, ANSWERED, LOST, BAD, TOO_LARGE };

struct grantd_waiter {
  struct grantd_waiter *next;
  uint64_t id, connection;
  char *buffer;
  size_t size;
  /* With the client's lock. */
  int is_listed;
  /* The rest with its own lock: it has an answer, or it reads or sends from now on. */
  pthread_mutex_t lock;
  pthread_cond_t ready;
  enum state state;
  int reads, sends;
};

static void make_condition(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void reset(struct grantd_client *client) {
  pthread_mutex_init(&client->lock, NULL);
  make_condition(&client->idle);
  client->filled = client->queued = 0;
  client->waiting = client->reader = client->sender = NULL;
  client->descriptor = -1;
  client->is_ended = client->is_reading = client->is_sending = client->is_long = 0;
  client->connection++;
}

void grantd_init(struct grantd_client *client, void *memory, size_t size, const char *socket) {
  *client = (struct grantd_client){.memory = memory, .size = size, .path = socket, .pid = getpid()};
  reset(client);
}

/* In the child after a fork: the parent uses the connection, and another thread may have held the lock. */
static void notice_fork(struct grantd_client *client) {
  enum { RESETTING = -1 };
  int own = getpid(), seen = __atomic_load_n(&client->pid, __ATOMIC_ACQUIRE);
  while (seen != own) {
    if (seen != RESETTING && __atomic_compare_exchange_n(&client->pid, &seen, RESETTING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      if (client->descriptor >= 0) close(client->descriptor);
      reset(client);
      __atomic_store_n(&client->pid, own, __ATOMIC_RELEASE);
      return;
    }
    seen = __atomic_load_n(&client->pid, __ATOMIC_ACQUIRE);
  }
}

static void begin_waiting(struct grantd_waiter *waiter) {
  pthread_mutex_init(&waiter->lock, NULL);
  make_condition(&waiter->ready);
}

static void end_waiting(struct grantd_waiter *waiter) {
  pthread_cond_destroy(&waiter->ready);
  pthread_mutex_destroy(&waiter->lock);
}

static void wake(struct grantd_waiter *waiter, enum state state, int reads, int sends) {
  pthread_mutex_lock(&waiter->lock);
  waiter->state = state;
  waiter->reads |= reads;
  waiter->sends |= sends;
  pthread_cond_signal(&waiter->ready);
  /* Unlocked last: the thread that is woken may then return, and its waiter ends. */
  pthread_mutex_unlock(&waiter->lock);
}

static enum state state_of(struct grantd_waiter *waiter) {
  pthread_mutex_lock(&waiter->lock);
  enum state state = waiter->state;
  pthread_mutex_unlock(&waiter->lock);
  return state;
}

/* With the lock: closes the descriptor of a connection that ended. Until no thread uses it, no other file gets its number. */
static void close_if_unused(struct grantd_client *client) {
  if (client->is_ended && !client->is_reading && !client->is_sending) {
    close(client->descriptor);
    client->descriptor = -1;
    client->is_ended = 0;
    grantd_wipe(client->memory, client->filled);
    client->filled = 0;
  }
  pthread_cond_broadcast(&client->idle);
}

/* With the lock: ends the connection; each thread that waits gets the state. */
static void end(struct grantd_client *client, enum state state) {
  if (client->descriptor < 0 || client->is_ended) return;
  shutdown(client->descriptor, SHUT_RDWR);
  client->is_ended = 1;
  client->connection++;
  client->queued = 0;
  client->reader = client->sender = NULL;
  struct grantd_waiter *one = client->waiting;
  client->waiting = NULL;
  while (one) {
    struct grantd_waiter *next = one->next;
    one->is_listed = 0;
    wake(one, state, 0, 0);
    one = next;
  }
  close_if_unused(client);
}

/* With the lock: ends that connection, unless it was ended. */
static void end_connection(struct grantd_client *client, uint64_t connection, enum state state) {
  if (client->connection == connection) end(client, state);
}

/* With the lock. */
static void leave(struct grantd_client *client, struct grantd_waiter *waiter) {
  for (struct grantd_waiter **at = &client->waiting; *at; at = &(*at)->next)
    if (*at == waiter) {
      *at = waiter->next;
      waiter->is_listed = 0;
      return;
    }
}

/* Gives a line to its waiter. Late answers, and notifications of a newer broker, have none. 0: the line is not an answer. */
static int deliver(struct grantd_client *client, uint64_t connection, char *line, size_t length) {
  const char *behind = is_utf8(line) && strlen(line) == length ? skip_value(line, DEEPEST) : NULL;
  if (!behind || *blank(behind) || *blank(line) != '{') return 0;
  int64_t id = integer(member(line, "id"));
  pthread_mutex_lock(&client->lock);
  struct grantd_waiter *one = client->connection == connection && id >= 0 ? client->waiting : NULL;
  while (one && one->id != (uint64_t)id) one = one->next;
  if (one) leave(client, one);
  pthread_mutex_unlock(&client->lock);
  if (!one) return 1;
  int fits = length < one->size;
  if (fits) memcpy(one->buffer, line, length + 1);
  wake(one, fits ? ANSWERED : TOO_LARGE, 0, 0);
  return 1;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Reads once. The number of bytes; 0: the connection ended; -1: it is too late. */
static ssize_t receive(struct grantd_client *client, int descriptor, double deadline) {
  for (;;) {
    double left = deadline - now();
    if (left <= 0) return -1;
    ssize_t count = recv(descriptor, client->memory + client->filled, client->size - client->filled, MSG_DONTWAIT);
    if (count >= 0) return count;
    if (errno != EAGAIN && errno != EINTR) return 0;
    struct pollfd input = {.fd = descriptor, .events = POLLIN};
    poll(&input, 1, left < 3600 ? (int)(left * 1000) + 1 : 3600000);
  }
}

/* The whole lines that were read; WAITING, or BAD. */
static enum state take_lines(struct grantd_client *client, uint64_t connection) {
  char *line = client->memory, *newline;
  while ((newline = memchr(line, '\n', client->filled - (size_t)(line - client->memory)))) {
    *newline = 0;
    if (!deliver(client, connection, line, (size_t)(newline - line))) return BAD;
    line = newline + 1;
  }
  size_t used = (size_t)(line - client->memory), left = client->filled - used;
  memmove(client->memory, line, left);
  grantd_wipe(client->memory + left, used);
  client->filled = left;
  return left == client->size ? BAD : WAITING;
}

/* With the lock: a thread that waits; `not_wanted` only if no other does. */
static struct grantd_waiter *another(struct grantd_client *client, struct grantd_waiter *not_wanted) {
  struct grantd_waiter *one = client->waiting;
  return one && one == not_wanted && one->next ? one->next : one;
}

/* Reads for all until this thread has its answer. -1: it did not come in time. */
static int read_for_all(struct grantd_client *client, struct grantd_waiter *waiter, double deadline) {
  pthread_mutex_lock(&client->lock);
  if (client->reader != waiter) return pthread_mutex_unlock(&client->lock), 0;
  client->is_reading = 1;
  int descriptor = client->descriptor;
  pthread_mutex_unlock(&client->lock);
  enum state found = WAITING;
  ssize_t count = 0;
  while (found == WAITING && state_of(waiter) == WAITING) {
    count = receive(client, descriptor, deadline);
    if (count < 0) break;
    client->filled += (size_t)count;
    found = count == 0 ? LOST : take_lines(client, waiter->connection);
  }
  pthread_mutex_lock(&client->lock);
  if (found != WAITING) end_connection(client, waiter->connection, found);
  client->is_reading = 0;
  if (client->is_ended) close_if_unused(client);
  if (client->reader == waiter && count >= 0) {
    /* The thread that sends reads later: the others' answers must not wait for it. */
    client->reader = another(client, client->sender);
    if (client->reader) wake(client->reader, WAITING, 1, 0);
  }
  pthread_mutex_unlock(&client->lock);
  return count < 0 ? -1 : 0;
}

static int send_all(int descriptor, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return -1;
    bytes += sent;
    count -= (size_t)sent;
  }
  return 0;
}

/* With the lock, which is released while it sends. */
static void send_for_all(struct grantd_client *client, struct grantd_waiter *waiter, const char *bytes, size_t count) {
  int descriptor = client->descriptor;
  client->is_sending = 1;
  pthread_mutex_unlock(&client->lock);
  int is_sent = send_all(descriptor, bytes, count) == 0;
  pthread_mutex_lock(&client->lock);
  client->is_sending = 0;
  /* A part of a line may have been sent. */
  if (!is_sent) end_connection(client, waiter->connection, LOST);
  close_if_unused(client);
}

/* With the lock: sends the lines that are queued, and those that come in the meantime. */
static void send_queued(struct grantd_client *client, struct grantd_waiter *waiter) {
  while (client->sender == waiter && client->queued > 0) {
    /* A thread that has its answer leaves the rest to one that still waits, other than the one that reads. */
    struct grantd_waiter *next = waiter->is_listed ? NULL : another(client, client->reader);
    if (next && next != client->reader) {
      client->sender = next;
      wake(next, WAITING, 0, 1);
      return;
    }
    const char *lines = client->lines[client->box];
    size_t count = client->queued;
    client->box = !client->box;
    client->queued = 0;
    send_for_all(client, waiter, lines, count);
  }
  if (client->sender == waiter) client->sender = NULL;
}

/* With the lock: a connection. Only one is open: two threads may still use one that ended. */
static int open_connection(struct grantd_client *client, struct grantd_error *error) {
  while (client->is_ended) pthread_cond_wait(&client->idle, &client->lock);
  if (client->descriptor >= 0) return 0;
  client->descriptor = open_socket(client->path, error);
  return client->descriptor >= 0 ? 0 : -1;
}

/* With the lock: sends the request in `waiter->buffer`, or leaves it to the thread that sends. -1: the connection ended. */
static int put_line(struct grantd_client *client, struct grantd_waiter *waiter, size_t length) {
  const char *bytes = waiter->buffer;
  while (client->connection == waiter->connection && client->sender &&
         (client->is_long || length > sizeof client->lines[0] - client->queued))
    pthread_cond_wait(&client->idle, &client->lock);
  if (client->connection != waiter->connection) return -1;
  int is_sender = !client->sender;
  if (is_sender) client->sender = waiter;
  if (length > sizeof client->lines[0]) {
    /* All but the newline: there is no answer before that. Other lines wait until it was sent. */
    client->is_long = 1;
    send_for_all(client, waiter, bytes, length - 1);
    client->is_long = 0;
    if (client->connection != waiter->connection) return -1;
    bytes += length - 1;
    length = 1;
  }
  memcpy(client->lines[client->box] + client->queued, bytes, length);
  client->queued += length;
  waiter->next = client->waiting;
  waiter->is_listed = 1;
  client->waiting = waiter;
  if (!client->reader) {
    client->reader = waiter;
    waiter->reads = 1;
  }
  if (is_sender) send_queued(client, waiter);
  return 0;
}

static void send_or_pass_on(struct grantd_client *client, struct grantd_waiter *waiter) {
  pthread_mutex_lock(&client->lock);
  send_queued(client, waiter);
  pthread_mutex_unlock(&client->lock);
}

/* Waits for the answer; reads or sends for all, if no other thread does. -1: it did not come in time. */
static int wait_for(struct grantd_client *client, struct grantd_waiter *waiter, double deadline) {
  struct timespec until = {.tv_sec = (time_t)deadline};
  until.tv_nsec = (long)((deadline - (double)until.tv_sec) * 1e9);
  int is_late = 0;
  pthread_mutex_lock(&waiter->lock);
  while (waiter->state == WAITING) {
    int reads = waiter->reads, sends = waiter->sends;
    if (is_late) {
      pthread_mutex_unlock(&waiter->lock);
      pthread_mutex_lock(&client->lock);
      int is_listed = waiter->is_listed;
      if (is_listed) {
        /* The broker ends each request by itself: this connection is of no use any more. */
        leave(client, waiter);
        end_connection(client, waiter->connection, LOST);
      }
      pthread_mutex_unlock(&client->lock);
      if (is_listed) return -1;
      /* Another thread has its answer, and is about to wake it. */
      is_late = 0;
      pthread_mutex_lock(&waiter->lock);
      while (waiter->state == WAITING) pthread_cond_wait(&waiter->ready, &waiter->lock);
    } else if (reads || sends) {
      waiter->reads = waiter->sends = 0;
      pthread_mutex_unlock(&waiter->lock);
      if (sends) send_or_pass_on(client, waiter);
      if (reads) is_late = read_for_all(client, waiter, deadline) != 0;
      pthread_mutex_lock(&waiter->lock);
    } else {
      is_late = pthread_cond_timedwait(&waiter->ready, &waiter->lock, &until) == ETIMEDOUT;
    }
  }
  int sends = waiter->sends;
  pthread_mutex_unlock(&waiter->lock);
  if (sends) send_or_pass_on(client, waiter);
  return 0;
}

/* Waits for the answer, in `waiter->buffer`. */
static int exchange(struct grantd_client *client, struct grantd_waiter *waiter, double deadline, struct grantd_error *error) {
  int is_late = wait_for(client, waiter, deadline) != 0;
  enum state state = waiter->state;
  end_waiting(waiter);
  if (is_late) return late(error);
  switch (state) {
  case ANSWERED: return 0;
  case BAD: return bad(error, "is not valid");
  case TOO_LARGE: return bad(error, "is larger than the buffer");
  default: return lost(error);
  }
}

/* The object `result` of an answer; NULL with `error`. */
static char *result_of(char *answer, struct grantd_error *error) {
  const char *found = member(answer, "error");
  if (!found) {
    const char *result = member(answer, "result");
    if (!result || *result != '{') bad(error, "has no result");
    return result && *result == '{' ? (char *)result : NULL;
  }
  const char *data = member(found, "data"), *seconds = member(data, "retry_after"), *code = member(found, "code");
  memset(error, 0, sizeof *error);
  error->kind = GRANTD_OTHER;
  copy_string(error->reason, sizeof error->reason, member(data, "reason"));
  copy_string(error->message, sizeof error->message, member(found, "message"));
  copy_string(error->hint, sizeof error->hint, member(data, "hint"));
  error->code = code ? (int)strtol(code, NULL, 10) : 0;
  /* Without a fraction, which strtod reads by the locale. */
  error->retry_after = seconds && *seconds >= '0' && *seconds <= '9' ? (double)strtoll(seconds, NULL, 10) : -1;
  for (size_t i = 0; i < sizeof reason_names / sizeof *reason_names; i++)
    if (!strcmp(reason_names[i].name, error->reason)) error->kind = reason_names[i].reason;
  return NULL;
}

typedef void (*writer)(struct text *, uint64_t id, const void *);

/* The result of a request, in `buffer`. After `shutting_down` or a lost connection it asks once more. */
static char *perform(
  struct grantd_client *client, writer write, const void *params, double timeout, char *buffer, size_t size,
  struct grantd_error *error) {
  char *result = NULL;
  int cancellable;
  /* A cancelled thread would never pass the reading to another. */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
  notice_fork(client);
  double deadline = now() + (timeout > 0 ? timeout : DEFAULT_SECONDS) + GRACE_SECONDS;
  for (int attempt = 0; attempt < 2; attempt++) {
    struct grantd_waiter waiter = {.buffer = buffer, .size = size};
    waiter.id = __atomic_add_fetch(&client->last, 1, __ATOMIC_RELAXED);
    struct text text = {.to = buffer, .size = size};
    write(&text, waiter.id, params);
    add_word(&text, "}}\n");
    if (text.is_cut) {
      fail(error, GRANTD_OTHER, "Use a larger buffer.", "the request does not fit into the buffer");
      break;
    }
    begin_waiting(&waiter);
    pthread_mutex_lock(&client->lock);
    int is_open = open_connection(client, error) == 0;
    waiter.connection = client->connection;
    if (is_open && put_line(client, &waiter, text.length) != 0) waiter.state = LOST;
    pthread_mutex_unlock(&client->lock);
    if (!is_open) {
      end_waiting(&waiter);
      break;
    }
    if (exchange(client, &waiter, deadline, error) == 0) {
      result = result_of(buffer, error);
      if (result || error->kind != GRANTD_SHUTTING_DOWN) break;
      pthread_mutex_lock(&client->lock);
      end_connection(client, waiter.connection, LOST);
      pthread_mutex_unlock(&client->lock);
    } else if (error->kind != GRANTD_DISCONNECTED) {
      break;
    }
  }
  pthread_setcancelstate(cancellable, NULL);
  return result;
}

/* ---- the methods */

static void write_token(struct text *text, uint64_t id, const void *params) {
  const struct grantd_request *request = params;
  begin(text, id, "token.get", request->account);
  if (request->scopes) {
    add_word(text, ",\"scopes\":[");
    for (size_t i = 0; i < request->scope_count; i++) {
      if (i > 0) add_word(text, ",");
      add_string(text, request->scopes[i]);
    }
    add_word(text, "]");
  }
  if (request->resource) {
    add_word(text, ",\"resource\":");
    add_string(text, request->resource);
  }
  add_seconds(text, ",\"min_ttl\":", request->min_ttl);
  add_seconds(text, ",\"timeout\":", request->timeout);
}

int grantd_token(
  struct grantd_client *client, const struct grantd_request *request, char *buffer, size_t size, struct grantd_token *token,
  struct grantd_error *error) {
  memset(token, 0, sizeof *token);
  char *result = perform(client, write_token, request, request->timeout, buffer, size, error);
  if (!result) {
    grantd_wipe(buffer, size);
    return -1;
  }
  /* All members are found before the first string is changed. */
  char *access = (char *)member(result, "access_token"), *type = (char *)member(result, "token_type");
  char *cookie = (char *)member(result, "cookie"), *account = (char *)member(result, "account");
  char *provider = (char *)member(result, "provider");
  token->generation = integer(member(result, "generation"));
  token->expires_at = integer(member(result, "expires_at"));
  token->access_token = in_place(access);
  token->token_type = in_place(type);
  token->cookie = in_place(cookie);
  token->account = in_place(account);
  token->provider = in_place(provider);
  if (token->generation >= 0 && (*token->access_token || *token->cookie)) return 0;
  memset(token, 0, sizeof *token);
  grantd_wipe(buffer, size);
  return bad(error, "has no token");
}

struct report {
  const char *account;
  int64_t generation;
  double timeout;
};

static void write_report(struct text *text, uint64_t id, const void *params) {
  const struct report *report = params;
  char number[40];
  snprintf(number, sizeof number, ",\"generation\":%lld", (long long)report->generation);
  begin(text, id, "token.report_rejected", report->account);
  add_word(text, number);
  add_seconds(text, ",\"timeout\":", report->timeout);
}

int grantd_report_rejected(
  struct grantd_client *client, const char *account, int64_t generation, double timeout, int64_t *current,
  struct grantd_error *error) {
  char buffer[REPORT_BYTES];
  struct report report = {account, generation, timeout};
  char *result = perform(client, write_report, &report, timeout, buffer, sizeof buffer, error);
  if (!result) return -1;
  int64_t found = integer(member(result, "generation"));
  if (found < 0) return bad(error, "has no generation");
  if (current) *current = found;
  return 0;
}

void grantd_close(struct grantd_client *client) {
  if (client->descriptor >= 0) close(client->descriptor);
  client->descriptor = -1;
  grantd_wipe(client->memory, client->filled);
  client->filled = 0;
  pthread_cond_destroy(&client->idle);
  pthread_mutex_destroy(&client->lock);
}

static struct grantd_client shared;
static char shared_memory[SHARED_BYTES];

static void make_shared(void) { grantd_init(&shared, shared_memory, sizeof shared_memory, NULL); }

int grantd_get(const char *account, char *token, size_t size, struct grantd_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_shared);
  char buffer[SHARED_BYTES];
  struct grantd_token found;
  if (grantd_token(&shared, &(struct grantd_request){.account = account}, buffer, sizeof buffer, &found, error) != 0) return -1;
  size_t length = strlen(found.access_token);
  int is_whole = length > 0 && length < size;
  if (is_whole) memcpy(token, found.access_token, length + 1);
  grantd_wipe(buffer, sizeof buffer);
  return is_whole ? 0 : bad(error, length ? "has a token that is larger than the buffer" : "has a session and no access token");
}
