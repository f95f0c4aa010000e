/*
 * A CGI program (RFC 3875): answers each request with the document at API_URL, fetched by curl with the token of ACCOUNT.
 *
 *     cc -o service.cgi service.c grantd.c -pthread
 */
#include <grantd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[65536], buffer[65536];

/* The status of the API's answer, whose body is then in `body`; 0 if there is none. */
static int fetch(const struct grantd_token *token, FILE *body) {
  char status[4] = "";
  if (fflush(NULL) != 0 || ftruncate(fileno(body), 0) != 0 || dup2(fileno(body), STDOUT_FILENO) < 0) return 0;
  rewind(body);
  /* The token is not an argument: all users can read those. */
  FILE *curl = popen("exec curl -sS --max-time 30 -H @- -w '%{http_code}' -- \"$API_URL\"", "w");
  if (curl == NULL) return 0;
  fprintf(curl, "Authorization: %s %s\n", token->token_type, token->access_token);
  if (pclose(curl) != 0 || fseek(body, -3, SEEK_END) != 0 || fread(status, 1, 3, body) != 3) return 0;
  return atoi(status);
}

static void answer(FILE *out, const char *head, FILE *body) {
  char piece[4096];
  fprintf(out, "%s\r\n\r\n", head);
  if (body == NULL) return;
  long left = ftell(body) - 3;
  rewind(body);
  for (size_t count; left > 0 && (count = fread(piece, 1, left < 4096 ? (size_t)left : 4096, body)) > 0; left -= (long)count)
    fwrite(piece, 1, count, out);
}

int main(void) {
  const char *account = getenv("ACCOUNT");
  struct grantd_request request = {.account = account ? account : "work"};
  struct grantd_client client;
  struct grantd_token token;
  struct grantd_error error = {0};
  FILE *out = fdopen(dup(STDOUT_FILENO), "w"), *body = tmpfile();
  int status = 0, failed = out == NULL || body == NULL;
  grantd_init(&client, memory, sizeof memory, NULL);
  for (int attempt = 0; !failed && attempt < 2 && (attempt == 0 || status == 401); attempt++) {
    /* A token that the API refused is reported once, and the request sent once more. */
    failed = attempt > 0 && grantd_report_rejected(&client, token.account, token.generation, 0, NULL, &error) != 0;
    failed = failed || grantd_token(&client, &request, buffer, sizeof buffer, &token, &error) != 0;
    if (!failed) status = fetch(&token, body);
  }
  /* The hint is for the administrator, not for the service's users. */
  if (error.message[0]) fprintf(stderr, "%s: %s\n", error.message, error.hint);
  if (error.kind == GRANTD_TEMPORARILY_UNAVAILABLE) {
    char head[64];
    snprintf(head, sizeof head, "Status: 503\r\nRetry-After: %.0f", error.retry_after > 1 ? error.retry_after : 60);
    answer(out, head, NULL);
  } else if (failed || status != 200) {
    answer(out, error.kind == GRANTD_LOGIN_REQUIRED ? "Status: 503" : "Status: 502", NULL);
  } else {
    answer(out, "Content-Type: application/json", body);
  }
  grantd_wipe(buffer, sizeof buffer);
  grantd_close(&client);
  return out != NULL && fclose(out) == 0 ? 0 : 1;
}
