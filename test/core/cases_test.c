/* The cases of test/fixtures/cases.json in the core. */
#include "cases.h"

#include "harness.h"

#include <string.h>

static struct world w;
static struct wlk_request *requests[CASE_REQUESTS];

static const char *const words[] = {
    [WLK_OK] = "done",           [WLK_GRANTED] = "granted",           [WLK_PENDING] = "waits",
    [WLK_NOT_HELD] = "waits",    [WLK_NOT_AVAILABLE] = "unavailable", [WLK_STOLEN] = "stolen",
    [WLK_OTHER_LIMIT] = "limit", [WLK_QUEUE_FULL] = "full",
};

static void note(int agent, const struct wlk_event *items, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    note_event(agent, (int)items[i].tag, items[i].news);
    if (items[i].news & WLK_NEWS_GRANTED)
      note_token((int)items[i].tag, (uint64_t)items[i].token_high << 32 | items[i].token_low);
  }
}

static int agent_of(const struct wlk_request *request)
{
  int agent = 0;
  while (w.agents[agent] != request->agent) agent++;
  return agent;
}

static void start(void)
{
  begin(&w);
}

static void stop(void)
{
  end(&w);
}

static const char *ask_for(const struct call *call, uint32_t *limit)
{
  struct outcome outcome = {0};
  uint16_t name = (uint16_t)call->name, label = (uint16_t)call->id;
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  struct wlk_extra extra = call->extra;
  extra.label = &label;
  extra.label_length = 1;
  enum wlk_status status = wlk_request_a_lock(
      w.agents[call->agent], w.manager, &name, 1, call->mode, call->option, (uint32_t)call->id,
      &extra, &requests[call->id], NULL, &events);
  if (status == WLK_GRANTED) note_token(call->id, events.token);
  if (status == WLK_OTHER_LIMIT) *limit = events.limit;
  note(call->agent, outcome.events, events.count);
  return words[status];
}

/* A call that has just been made for a request of `agent`. */
static const char *answer(int agent, const struct outcome *outcome)
{
  note(agent, outcome->events, outcome->count);
  return words[outcome->status];
}

static const char *release_one(int id)
{
  int agent = agent_of(requests[id]);
  struct outcome outcome = release_lock(requests[id]);
  return answer(agent, &outcome);
}

static const char *abort_one(int id)
{
  int agent = agent_of(requests[id]);
  struct outcome outcome = abort_request(requests[id]);
  return answer(agent, &outcome);
}

static const char *end_one(int id)
{
  wlk_end_the_request(requests[id]);
  return "done";
}

static void terminate(int agent)
{
  stop_actor(&w, agent);
}

static void take_all(int agent)
{
  if (!w.agents[agent]) return;
  struct outcome outcome = take(&w, agent);
  note(agent, outcome.events, outcome.count);
  CHECK(broken(&w.process) == NULL);
}

static void look(char name, char *text, size_t size)
{
  struct wlk_snapshot *s;
  uint16_t unit = (uint16_t)name;
  bool held = true;
  CHECK(wlk_snapshot_a_name(w.manager, &unit, 1, true, &s) == WLK_OK);
  for (size_t i = 0; i < s->lock_count; i++) {
    const struct wlk_lock_info *info = &s->locks[i];
    size_t at = strlen(text);
    (void)snprintf(
        text + at, size - at, held && !info->held ? "| %d " : "%d ",
        s->names[info->label].units[0]);
    held = info->held;
  }
  (void)strcat(text, held ? "| " : "");
  text[strlen(text) - 1] = '\0';
  wlk_snapshot_free(s);
}

int main(int argc, char **argv)
{
  static const struct scope core = {"",        start,   stop,      ask_for,  release_one,
                                    abort_one, end_one, terminate, take_all, look};
  if (argc < 2) return 2;
  run_cases(argv[1], &core);
  return finish_tests();
}
