/* fasttoken - a token endpoint that answers at once, for measuring what asks it.
 *
 *   cc -O2 -o fasttoken fasttoken.c
 *   fasttoken [--port P] [--expires-in S] [--token-bytes N]
 *
 * One thread, epoll, HTTP/1.1 with keep-alive on 127.0.0.1. Prints "ready http://127.0.0.1:PORT" once it listens; port 0,
 * the default, is the kernel's choice. It refuses nobody: it is not a test of what a client sends.
 *
 *   GET  /.well-known/...  the metadata (RFC 8414)
 *   POST /token            a new access token and a new refresh token of N bytes each (300), living S seconds (86400)
 *   GET  /stats            {"refreshes":…,"repeated":…,"other":…,"first_us":…,"last_us":…,"connections":…}
 *   POST /reset            the counts begin again; which refresh tokens were seen is kept
 *   POST /settings?expires_in=S
 *
 * A refresh token that comes a second time counts as repeated: it was answered with another already. Times are those of
 * CLOCK_MONOTONIC, of the first and of the last refresh since the counts began.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_REQUEST 65536
#define MOST_TOKEN 4096

typedef uint64_t u64;
static long o_expires = 86400;
static int o_bytes = 300, o_port;
static u64 refreshes, repeated, other, first_us, last_us, connections, issued;
static char base[64], run[24];

static void die(const char *text) { fprintf(stderr, "fasttoken: %s: %s\n", text, strerror(errno)); exit(2); }
static void *grown(void *old, size_t size) { void *new = realloc(old, size); if (!new) die("memory"); return new; }
static u64 now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---------- refresh tokens that were seen: their hashes, open addressing ---------- */
static u64 *seen, seen_room, seen_count;

static u64 hash(const char *text, size_t length) { /* FNV-1a, mixed */
  u64 h = 1469598103934665603ull;
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
  h ^= h >> 33; h *= 0xff51afd7ed558ccdull; h ^= h >> 33;
  return h ? h : 1;
}
static int insert(u64 h) { /* 1: it was there */
  u64 i = h & (seen_room - 1);
  for (; seen[i]; i = (i + 1) & (seen_room - 1)) if (seen[i] == h) return 1;
  seen[i] = h;
  seen_count++;
  return 0;
}
static int was_seen(const char *token, size_t length) {
  if (seen_count * 2 >= seen_room) {
    u64 *old = seen, room = seen_room;
    seen_room = room ? room * 2 : 1 << 16; seen_count = 0;
    if (!(seen = calloc(seen_room, sizeof *seen))) die("memory");
    for (u64 i = 0; i < room; i++) if (old[i]) insert(old[i]);
    free(old);
  }
  return insert(hash(token, length));
}

/* ---------- answers ---------- */
struct conn {
  int fd;
  char *in, *out;
  size_t in_length, out_length, out_room, out_sent;
};

static void say(struct conn *c, const char *status, const char *body, size_t length) {
  size_t need = c->out_length + length + 256;
  if (need > c->out_room) c->out = grown(c->out, c->out_room = need * 2);
  c->out_length += sprintf(c->out + c->out_length,
    "HTTP/1.1 %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: %zu\r\n\r\n", status, length);
  memcpy(c->out + c->out_length, body, length);
  c->out_length += length;
}
static void put_token(char *out, const char *kind) {
  int n = sprintf(out, "%s-%s-%llu-", kind, run, (unsigned long long)issued);
  if (n < o_bytes) { memset(out + n, 'y', o_bytes - n); out[o_bytes] = 0; }
}
static void token(struct conn *c, const char *body, size_t length) {
  const char *grant = memmem(body, length, "grant_type=refresh_token", 24), *value = memmem(body, length, "refresh_token=", 14);
  /* "refresh_token=" is a parameter's name, not the end of another's. */
  while (value && value > body && value[-1] != '&') value = memmem(value + 1, body + length - value - 1, "refresh_token=", 14);
  if (!grant || !value) {
    other++;
    say(c, "400 Bad Request", "{\"error\":\"unsupported_grant_type\"}", 34);
    return;
  }
  value += 14;
  const char *end = memchr(value, '&', body + length - value);
  repeated += was_seen(value, (end ? end : body + length) - value);
  last_us = now_us();
  if (!refreshes++) first_us = last_us;
  issued++;
  char access[MOST_TOKEN + 64], refresh[MOST_TOKEN + 64], answer[2 * MOST_TOKEN + 512];
  put_token(access, "at");
  put_token(refresh, "rt");
  int n = sprintf(answer, "{\"access_token\":\"%s\",\"token_type\":\"Bearer\",\"expires_in\":%ld,\"refresh_token\":\"%s\"}",
    access, o_expires, refresh);
  say(c, "200 OK", answer, n);
}
static void answer(struct conn *c, const char *head, const char *body, size_t length) {
  char text[512];
  int n;
  if (!strncmp(head, "POST /token ", 12)) { token(c, body, length); return; }
  if (!strncmp(head, "GET /stats ", 11)) {
    n = sprintf(text, "{\"refreshes\":%llu,\"repeated\":%llu,\"other\":%llu,\"first_us\":%llu,\"last_us\":%llu,\"connections\":%llu}\n",
      (unsigned long long)refreshes, (unsigned long long)repeated, (unsigned long long)other, (unsigned long long)first_us,
      (unsigned long long)last_us, (unsigned long long)connections);
  } else if (!strncmp(head, "POST /reset ", 12)) {
    refreshes = repeated = other = first_us = last_us = 0;
    n = sprintf(text, "{}");
  } else if (!strncmp(head, "POST /settings?expires_in=", 26)) {
    o_expires = atol(head + 26);
    n = sprintf(text, "{}");
  } else if (!strncmp(head, "GET /.well-known/", 17)) {
    n = sprintf(text, "{\"issuer\":\"%s\",\"token_endpoint\":\"%s/token\",\"authorization_endpoint\":\"%s/authorize\","
      "\"jwks_uri\":\"%s/keys\",\"response_types_supported\":[\"code\"]}", base, base, base, base);
  } else {
    say(c, "404 Not Found", "{}", 2);
    return;
  }
  say(c, "200 OK", text, n);
}

/* ---------- connections ---------- */
static int take(struct conn *c) { /* requests that are whole are answered; -1: not HTTP as it should be */
  size_t at = 0;
  c->in[c->in_length] = 0;
  for (char *end; (end = memmem(c->in + at, c->in_length - at, "\r\n\r\n", 4));) {
    *end = 0;
    char *field = strcasestr(c->in + at, "\r\ncontent-length:"), *chunked = strcasestr(c->in + at, "\r\ntransfer-encoding:");
    *end = '\r';
    long length = field ? atol(field + 17) : 0;
    size_t head = end + 4 - c->in;
    if (chunked || length < 0 || length > MOST_REQUEST) return -1;
    if (c->in_length - head < (size_t)length) break;
    answer(c, c->in + at, c->in + head, length);
    at = head + length;
  }
  memmove(c->in, c->in + at, c->in_length -= at);
  return c->in_length >= MOST_REQUEST ? -1 : 0;
}
static int flush(struct conn *c) {
  while (c->out_sent < c->out_length) {
    ssize_t n = send(c->fd, c->out + c->out_sent, c->out_length - c->out_sent, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->out_sent += n;
  }
  c->out_length = c->out_sent = 0;
  return 0;
}
static void drop(struct conn *c) { close(c->fd); free(c->in); free(c->out); free(c); connections--; }

static void serve(int ep, struct conn *c, uint32_t events) {
  if (events & EPOLLIN) {
    ssize_t n = recv(c->fd, c->in + c->in_length, MOST_REQUEST - c->in_length, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) { drop(c); return; }
    if (n > 0) c->in_length += n;
    if (n > 0 && take(c) < 0) { drop(c); return; }
  } else if (events & (EPOLLHUP | EPOLLERR)) { drop(c); return; }
  if (flush(c) < 0) { drop(c); return; }
  struct epoll_event e = {.events = EPOLLIN | (c->out_length ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}

int main(int argc, char **argv) {
  static const struct option names[] = {{"port", 1, 0, 'p'}, {"expires-in", 1, 0, 'e'}, {"token-bytes", 1, 0, 'b'}, {0, 0, 0, 0}};
  for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) switch (o) {
    case 'p': o_port = atoi(optarg); break;
    case 'e': o_expires = atol(optarg); break;
    case 'b': o_bytes = atoi(optarg); break;
    default: fprintf(stderr, "usage: fasttoken [--port P] [--expires-in S] [--token-bytes N]\n"); return 2;
  }
  if (o_bytes < 48 || o_bytes > MOST_TOKEN) { fprintf(stderr, "fasttoken: --token-bytes is 48 to %d\n", MOST_TOKEN); return 2; }
  signal(SIGPIPE, SIG_IGN);
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  sprintf(run, "%llx", (unsigned long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(o_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) die("cannot listen");
  getsockname(listener, (struct sockaddr *)&address, &size);
  sprintf(base, "http://127.0.0.1:%d", ntohs(address.sin_port));
  printf("ready %s\n", base);
  fflush(stdout);
  int ep = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
  for (;;) {
    int n = epoll_wait(ep, events, 256, -1);
    if (n < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < n; i++) {
      if (events[i].data.ptr) { serve(ep, events[i].data.ptr, events[i].events); continue; }
      int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) continue;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      struct conn *c = calloc(1, sizeof *c);
      if (!c) die("memory");
      c->fd = fd;
      c->in = grown(NULL, MOST_REQUEST + 1);
      e = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
      epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
      connections++;
    }
  }
}
