/* The driver of C. It includes the library, to read its commands with the library's own JSON. */
#include "grantd.c"

#include <signal.h>
#include <sys/wait.h>

#define LINE_BYTES 65536
#define MOST_THREADS 16
#define MOST_SCOPES 8

static struct grantd_client client;
static char memory[LINE_BYTES];
static char line[LINE_BYTES], answer[LINE_BYTES];

static const char *string_of(const char *object, const char *name, char *to) {
  const char *value = member(object, name);
  copy_string(to, LINE_BYTES / 8, value);
  return value ? to : NULL;
}

static double number_of(const char *object, const char *name) {
  const char *value = member(object, name);
  return value ? strtod(value, NULL) : 0;
}

/* Prints {"NAME": …} of a value that is JSON. */
static void say(const char *name, const char *value) {
  printf("{\"%s\":%s}\n", name, value);
  fflush(stdout);
}

static const char *described(const struct grantd_error *error) {
  struct text text = {.to = answer, .size = sizeof answer - 1};
  add_word(&text, "{\"reason\":");
  add_string(&text, error->reason);
  add_word(&text, ",\"message\":");
  add_string(&text, error->message);
  add_word(&text, ",\"hint\":");
  add_string(&text, error->hint);
  add_word(&text, ",\"retry_after\":");
  char number[32];
  snprintf(number, sizeof number, "%.0f", error->retry_after);
  add_word(&text, number);
  int kind = GRANTD_OTHER;
  for (size_t i = 0; i < sizeof reason_names / sizeof *reason_names; i++)
    if (!strcmp(reason_names[i].name, error->reason)) kind = reason_names[i].reason;
  add_word(&text, kind == (int)error->kind ? ",\"is_type\":true}" : ",\"is_type\":false}");
  answer[text.length] = 0;
  return answer;
}

static void say_token(const struct grantd_token *token) {
  struct text text = {.to = answer, .size = sizeof answer - 1};
  add_word(&text, "{\"access_token\":");
  add_string(&text, token->access_token);
  add_word(&text, ",\"token_type\":");
  add_string(&text, token->token_type);
  add_word(&text, ",\"account\":");
  add_string(&text, token->account);
  add_word(&text, ",\"provider\":");
  add_string(&text, token->provider);
  char numbers[100];
  snprintf(
    numbers, sizeof numbers, ",\"generation\":%lld,\"expires_at\":%lld,\"scope\":[\"x\"]}", (long long)token->generation,
    (long long)token->expires_at);
  add_word(&text, numbers);
  answer[text.length] = 0;
  say("ok", answer);
}

/* The access token of an account, or the reason of its error, as a string in `to`. */
static int get_by(struct grantd_client *used, const char *account, char *to, size_t size, struct grantd_error *error) {
  char buffer[LINE_BYTES];
  struct grantd_token token;
  int status = grantd_token(used, &(struct grantd_request){.account = account}, buffer, sizeof buffer, &token, error);
  snprintf(to, size, "%s", status == 0 ? token.access_token : error->reason);
  return status;
}

static int get(const char *account, char *to, size_t size, struct grantd_error *error) {
  return get_by(&client, account, to, size, error);
}

static void do_token(void) {
  static char account[LINE_BYTES / 8], resource[LINE_BYTES / 8], scopes[MOST_SCOPES][LINE_BYTES / 8], buffer[LINE_BYTES];
  const char *list[MOST_SCOPES], *at = member(line, "scopes");
  size_t count = 0;
  for (const char *one = at ? blank(at + 1) : ""; *one == '"' && count < MOST_SCOPES; one = blank(one)) {
    copy_string(scopes[count], sizeof scopes[count], one);
    list[count] = scopes[count];
    count++;
    one = blank(skip_string(one));
    if (*one == ',') one++;
  }
  struct grantd_request request = {
    .account = string_of(line, "account", account), .scopes = at ? list : NULL, .scope_count = count,
    .resource = string_of(line, "resource", resource), .min_ttl = number_of(line, "min_ttl"), .timeout = number_of(line, "timeout")};
  struct grantd_token token;
  struct grantd_error error;
  if (grantd_token(&client, &request, buffer, sizeof buffer, &token, &error) == 0)
    say_token(&token);
  else
    say("error", described(&error));
}

static void do_report(void) {
  static char account[LINE_BYTES / 8];
  struct grantd_error error;
  int64_t current;
  char number[32];
  if (grantd_report_rejected(
        &client, string_of(line, "account", account), integer(member(line, "generation")), 0, &current, &error) != 0) {
    say("error", described(&error));
    return;
  }
  snprintf(number, sizeof number, "%lld", (long long)current);
  say("ok", number);
}

/* The library's memory keeps no token after the call, nor does a buffer after an error. */
static void do_print(void) {
  static char account[LINE_BYTES / 8], secret[LINE_BYTES / 8], small[1];
  struct grantd_error error;
  get(string_of(line, "account", account), secret, sizeof secret, &error);
  int is_kept = memmem(memory, sizeof memory, secret, strlen(secret)) || memmem(shared_memory, SHARED_BYTES, secret, strlen(secret));
  if (grantd_get(account, small, sizeof small, &error) == 0 || strstr(error.message, secret)) is_kept = 1;
  char texts[LINE_BYTES / 4];
  snprintf(texts, sizeof texts, "[\"%s\"]", is_kept ? secret : "clean");
  say("ok", texts);
}

struct work {
  char account[LINE_BYTES / 2];
  int count, good, is_separate;
  struct grantd_error failed;
};

static void *work(void *context) {
  struct work *own = context;
  char token[1024], own_memory[LINE_BYTES];
  struct grantd_client own_client;
  struct grantd_error error;
  grantd_init(&own_client, own_memory, sizeof own_memory, NULL);
  for (int i = 0; i < own->count; i++) {
    if (get_by(own->is_separate ? &own_client : &client, own->account, token, sizeof token, &error) == 0)
      own->good++;
    else
      own->failed = error;
  }
  grantd_close(&own_client);
  return NULL;
}

static void do_many(void) {
  static struct work works[MOST_THREADS];
  static char account[LINE_BYTES / 2], other[LINE_BYTES / 8];
  pthread_t threads[MOST_THREADS];
  int good = 0, count = (int)number_of(line, "threads"), is_separate = member(line, "separate") && *member(line, "separate") == 't';
  const struct grantd_error *failed = NULL;
  copy_string(account, sizeof account, member(line, "account"));
  int has_other = string_of(line, "other", other) != NULL;
  for (int i = 0; i < count; i++) {
    works[i] = (struct work){.count = (int)number_of(line, "count") / count, .is_separate = is_separate};
    strcpy(works[i].account, has_other && i % 2 ? other : account);
    pthread_create(&threads[i], NULL, work, &works[i]);
  }
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    good += works[i].good;
    if (works[i].good < works[i].count) failed = &works[i].failed;
  }
  char text[LINE_BYTES / 4];
  snprintf(text, sizeof text, "{\"good\":%d,\"failed\":[%.8000s]}", good, failed ? described(failed) : "");
  say("ok", text);
}

static void do_fork(void) {
  static char account[LINE_BYTES / 8];
  static struct work slow;
  char before[512] = "", child[512] = "", after[512] = "", text[LINE_BYTES / 8];
  struct grantd_error error;
  slow = (struct work){.count = 1};
  snprintf(slow.account, sizeof slow.account, "%.200s", string_of(line, "slow", account));
  string_of(line, "account", account);
  get(account, before, sizeof before, &error);
  pthread_t thread;
  int ends[2];
  pthread_create(&thread, NULL, work, &slow);
  usleep(50000);
  if (pipe(ends) != 0) return;
  pid_t pid = fork();
  if (pid == 0) {
    get(account, child, sizeof child, &error);
    _exit(write(ends[1], child, sizeof child) == sizeof child ? 0 : 1);
  }
  waitpid(pid, NULL, 0);
  get(account, after, sizeof after, &error);
  pthread_join(thread, NULL);
  if (read(ends[0], child, sizeof child) != sizeof child) child[0] = 0;
  close(ends[0]);
  close(ends[1]);
  snprintf(text, sizeof text, "{\"before\":\"%s\",\"child\":\"%s\",\"after\":\"%s\"}", before, child, after);
  say("ok", text);
}

static volatile sig_atomic_t signals;

static void note(int number) { signals += number == SIGUSR1; }

/* A signal does not end a call. */
static void do_interrupted(void) {
  static char account[LINE_BYTES / 8];
  char token[512], text[1024];
  struct grantd_error error;
  struct sigaction action = {.sa_handler = note};
  sigaction(SIGUSR1, &action, NULL);
  int status = get(string_of(line, "account", account), token, sizeof token, &error);
  get(string_of(line, "then", account), token, sizeof token, &error);
  snprintf(text, sizeof text, "{\"was_interrupted\":%s,\"token\":\"%s\"}", status != 0 || signals != 1 ? "true" : "false", token);
  say("ok", text);
}

int main(void) {
  grantd_init(&client, memory, sizeof memory, NULL);
  static const struct {
    const char *name;
    void (*action)(void);
  } commands[] = {{"token", do_token}, {"report", do_report}, {"print", do_print},
                  {"many", do_many},   {"fork", do_fork},     {"interrupted", do_interrupted}};
  while (fgets(line, sizeof line, stdin)) {
    char name[LINE_BYTES / 8];
    string_of(line, "do", name);
    size_t i = 0;
    while (i < sizeof commands / sizeof *commands && strcmp(commands[i].name, name)) i++;
    if (i < sizeof commands / sizeof *commands)
      commands[i].action();
    else
      say("skip", "\"not part of the library\"");
  }
  grantd_close(&client);
  return 0;
}
