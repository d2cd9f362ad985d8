/* See cases.h. */
#include "cases.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 256 };

static const struct scope *scope;
static struct call calls[CASE_REQUESTS];
static char told[CASE_AGENTS][TEXT];
static uint64_t tokens[CASE_REQUESTS]; /* of a lock; 0: none, or not known */
static uint64_t last_tokens[128];      /* by name: the greatest before this step */

void note_event(int agent, int id, uint32_t news)
{
  size_t length = strlen(told[agent]);
  (void)snprintf(
      told[agent] + length, TEXT - length, ", %d%s%s%s", id,
      news & WLK_NEWS_GRANTED ? " granted" : "", news & WLK_NEWS_STOLEN ? " stolen" : "",
      news & WLK_NEWS_PASSED ? " passed" : "");
}

void note_token(int id, uint64_t token)
{
  tokens[id] = token;
}

static void read_word(struct call *call, const char *word)
{
  if (strcmp(word, "shared") == 0) call->mode = WLK_SHARED;
  if (strcmp(word, "ifAvailable") == 0)
    call->option = call->option == WLK_PASS ? WLK_PASS_IF_AVAILABLE : WLK_IF_AVAILABLE;
  if (strcmp(word, "steal") == 0) call->option = WLK_STEAL;
  if (strcmp(word, "pass") == 0) call->option = WLK_PASS;
  if (strcmp(word, "labelled") == 0) call->labelled = true;
}

static void read_value(struct call *call, const char *word, const char *value)
{
  if (strcmp(word, "of") == 0) call->name = value[0];
  if (strcmp(word, "limit") == 0) call->extra.limit = (uint32_t)strtoul(value, NULL, 10);
  if (strcmp(word, "weight") == 0) call->extra.weight = (uint32_t)strtoul(value, NULL, 10);
  if (strcmp(word, "priority") == 0) call->extra.priority = (int32_t)strtol(value, NULL, 10);
  if (strcmp(word, "maxPending") == 0) {
    call->extra.bounded = true;
    call->extra.max_pending = (uint32_t)strtoul(value, NULL, 10);
  }
}

struct call read_call(char **words, int count)
{
  struct call call = {.agent = words[0][0] - 'A', .id = atoi(words[1]), .name = 'a'};
  for (int i = 2; i < count; i++) {
    read_word(&call, words[i]);
    if (i + 1 < count) read_value(&call, words[i], words[i + 1]);
  }
  if (call.extra.limit > 0 && call.extra.weight == 0) call.extra.weight = 1;
  return call;
}

/* Makes the call of a request, which was cut in words. Returns its answer. */
static const char *ask_words(char **words, int count, uint32_t *limit)
{
  struct call call = read_call(words, count);
  calls[call.id] = call;
  return scope->ask(&calls[call.id], limit);
}

/* Does what a step says before its colon. Writes what comes of it, but for the events. */
static void act(char *text, bool is_later, char *answer)
{
  char *words[16];
  int count = 0;
  uint32_t limit = UINT32_MAX;
  for (char *word = strtok(text, " "); word && count < 16; word = strtok(NULL, " "))
    words[count++] = word;
  int id = count > 1 ? atoi(words[1]) : 0;
  const char *said = "done";
  answer[0] = '\0';
  if (strcmp(words[0], "state") == 0) {
    scope->look(count > 1 ? words[1][0] : 'a', answer, TEXT);
    return;
  }
  if (strcmp(words[0], "release") == 0)
    said = scope->release(id);
  else if (strcmp(words[0], "abort") == 0)
    said = scope->abort(id);
  else if (strcmp(words[0], "end") == 0)
    said = scope->end_request(id);
  else if (strcmp(words[0], "terminate") == 0)
    scope->terminate(words[1][0] - 'A');
  else
    said = ask_words(words, count, &limit);
  (void)snprintf(answer, TEXT, limit == UINT32_MAX ? "%s" : "%s %u", said, limit);
  for (int i = 0; i < CASE_AGENTS && !is_later; i++) scope->take(i);
  for (int i = 0; i < CASE_AGENTS; i++) (void)strcat(answer, told[i]);
  if (is_later) (void)strcat(answer, ", later");
}

/* Locks that were granted in this step have greater tokens than all of their names before. */
static void check_tokens(void)
{
  uint64_t greatest[128];
  memcpy(greatest, last_tokens, sizeof greatest);
  for (int i = 0; i < CASE_REQUESTS; i++) {
    int name = calls[i].name;
    if (tokens[i] == 0) continue;
    CHECK(tokens[i] > last_tokens[name]);
    if (tokens[i] > greatest[name]) greatest[name] = tokens[i];
    tokens[i] = 0;
  }
  memcpy(last_tokens, greatest, sizeof greatest);
}

static void take_step(char *step)
{
  char answer[TEXT], call[TEXT];
  char *colon = strchr(step, ':');
  const char *expected = colon + 2;
  (void)snprintf(call, sizeof call, "%.*s", (int)(colon - step), step);
  memset(told, 0, sizeof told);
  act(call, strstr(expected, ", later") != NULL, answer);
  if (!CHECK(strcmp(answer, expected) == 0)) printf("# %s, and not: %s\n", step, answer);
  check_tokens();
}

/* ---- the file ---- */

static char *steps[64];
static int step_count;

static void run_steps(void)
{
  memset(calls, 0, sizeof calls);
  memset(tokens, 0, sizeof tokens);
  memset(last_tokens, 0, sizeof last_tokens);
  scope->begin();
  for (int i = 0; i < step_count; i++) take_step(steps[i]);
  scope->end();
}

static void run_case(const char *title, bool is_lacked)
{
  struct test test = {title, run_steps, NULL};
  if (title && !is_lacked) run_test(&test);
  step_count = 0;
}

/* All strings of the file are without escapes, so the next quotation mark ends each. */
static void read_cases(char *text)
{
  const char *key = "", *title = NULL;
  bool is_lacked = false;
  for (char *quote = strchr(text, '"'); quote; quote = strchr(quote, '"')) {
    char *string = quote + 1, *end = strchr(string, '"');
    *end = '\0';
    quote = end + 1;
    if (*quote == ':') {
      key = string;
    } else if (strcmp(key, "title") == 0) {
      run_case(title, is_lacked);
      title = string;
      is_lacked = false;
    } else if (strcmp(key, "needs") == 0) {
      is_lacked = strstr(scope->lacks, string) != NULL;
    } else {
      for (char *next = string; next; step_count++) {
        steps[step_count] = next;
        next = strstr(next, "; ");
        if (next) *next = '\0', next += 2;
      }
    }
  }
  run_case(title, is_lacked);
}

void run_cases(const char *path, const struct scope *in)
{
  static char text[1 << 16];
  FILE *file = fopen(path, "r");
  scope = in;
  if (!CHECK(file != NULL)) exit(1);
  CHECK(fread(text, 1, sizeof text - 1, file) > 0);
  (void)fclose(file);
  read_cases(text);
}
