/* The cases of test/fixtures/cases.json, which the core, the cells of the host scope, its processes
 * and, in JavaScript, all scopes run: see test/conformance/cases.test.js for what a step says. */
#ifndef CASES_H
#define CASES_H

#include "../../src/core/weblocks.h"

enum { CASE_AGENTS = 4, CASE_REQUESTS = 32 };

struct call {
  int agent, id;
  char name;
  enum wlk_mode mode;
  enum wlk_option option;
  struct wlk_extra extra;
  bool labelled;
};

/* What a step says that makes a request, cut in words. */
struct call read_call(char **words, int count);

/* A scope that cases run in. Each call returns the word for its answer; `limit` is out. Those about
 * a request are made by the agent whose it is. */
struct scope {
  const char *lacks; /* words of `needs` that it has not got */
  void (*begin)(void);
  void (*end)(void); /* fails the test if anything is left */
  const char *(*ask)(const struct call *call, uint32_t *limit);
  const char *(*release)(int id);
  const char *(*abort)(int id);
  const char *(*end_request)(int id);
  void (*terminate)(int agent);
  void (*take)(int agent); /* has events noted that were not taken yet */
  /* Writes the requests for a name as in a step `state`. */
  void (*look)(char name, char *text, size_t size);
};

/* An event, or a grant by the answer to a request, whose token may be 0: not known. */
void note_event(int agent, int id, uint32_t news);
void note_token(int id, uint64_t token);

/* Runs all, a test for each. */
void run_cases(const char *path, const struct scope *scope);

#endif
