'use strict';

/** The core and the binding: queues, grants, events, wake-ups, deadlocks, marks, tags. */

const manager = 'core:manager_test';
const agent = 'core:agent_test';
const extra = 'core:extra_test';
const semaphore = 'core:semaphore_test';
const priority = 'core:priority_test';
const mark = 'core:mark_test';
const wake = 'core:wake_test';
const clock = 'core:clock_test';
const resource = 'core:resource_test';
const snapshot = 'core:snapshot_test';
const stress = 'core:stress_test';
const calls = 'test/binding/calls.test.js';
const sync = 'test/extensions/sync.test.js';
const deadlock = 'test/extensions/deadlock.test.js';
const model = 'test/model/deadlock.test.js';
const priorities = 'test/extensions/priority.test.js';
const stolen = 'test/hostile/stolen.test.js';

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  // Priorities.
  {
    file: 'src/core/queue.c',
    before: 'LEVEL_OF(level)->priority < priority)',
    after: 'LEVEL_OF(level)->priority <= priority)',
    why: 'of those who have the same priority the last one is granted first',
    tests: [priority, priorities],
  },
  {
    file: 'src/core/queue.c',
    before: 'if (wlk_list_is_empty(&resource->levels)) return wlk_priority(request) > 0;',
    after: 'if (wlk_list_is_empty(&resource->levels)) return false;',
    why: 'who would be first waits at the head of a queue, though it fits beside the locks that are held',
    tests: [priority, priorities],
  },
  {
    file: 'src/core/queue.c',
    before: 'return wlk_priority(request) > priority_at(resource->queue.next);',
    after: 'return wlk_priority(request) > 0;',
    why: 'who has a priority is granted at once ahead of those who have more',
    tests: [priority, priorities],
  },
  {
    file: 'src/core/queue.c',
    before: '  if (priority > 0)\n    return above',
    after: '  if (priority >= 0)\n    return above',
    why: 'who has no priority gets ahead of those who have none and wait',
    tests: [priority],
  },
  {
    file: 'src/core/queue.c',
    before: '  if (!is_new && entered->priority < 0) return;\n',
    after: '',
    why: 'a new request gets in between those whose priority is below 0',
    tests: [priority],
  },
  {
    file: 'src/core/queue.c',
    before: 'if (next != &request->resource->queue && priority_at(next) == leaving->priority)',
    after: 'if (next != &request->resource->queue && priority_at(next) != leaving->priority)',
    why: 'when one leaves, those of its priority are overtaken by who comes next',
    tests: [priority, priorities],
  },
  {
    file: 'src/core/queue.c',
    before:
      'return !wlk_list_is_empty(queue) && wlk_priority(request) > priority_at(queue->previous);',
    after: 'return !wlk_list_is_empty(queue) && wlk_priority(request) > INT32_MAX - 1;',
    why: 'a request gets ahead of another one, and both wait for ever',
    tests: [priority, model],
  },
  {
    file: 'src/core/queue.c',
    before: 'return priority_at(request->resource->queue.next) > wlk_priority(request);',
    after: 'return priority_at(request->resource->queue.next) < wlk_priority(request);',
    why: 'a thread that blocks waits for itself for ever, behind who got ahead meanwhile',
    tests: [priority],
  },
  {
    file: 'src/core/manager.c',
    before: '(request->declaration->nesting_count > 0 || wlk_queue_would_overtake(request));',
    after: 'request->declaration->nesting_count > 0;',
    why: 'a request that is made inside of nothing has others wait for themselves behind it',
    tests: [priority, model],
  },
  {
    file: 'src/core/deadlock.c',
    before: 'if (inner->request->resource == asker->request->resource &&',
    after: 'if (inner->request->resource != asker->request->resource &&',
    why: 'a request has others wait for themselves behind it',
    tests: [priority, model],
  },
  {
    file: 'src/core/deadlock.c',
    before: 'wlk_is_ahead(asker, inner))\n      return true;',
    after: '!wlk_is_ahead(asker, inner))\n      return true;',
    why: 'a request is refused for those that are ahead of it and do not wait for it',
    tests: [priority, model],
  },
  {
    file: 'src/core/declaration.h',
    before: ': one->priority > other->priority;',
    after: ': one->priority < other->priority;',
    why: 'a request waits for what those wait for that have less priority, and is refused',
    tests: [priority, model],
  },
  {
    file: 'src/core/declaration.c',
    before: 'while (resource->writer == first && wlk_is_ahead(declaration, WRITER_OF(ahead)))',
    after: 'if (resource->writer == first && wlk_is_ahead(declaration, WRITER_OF(ahead)))',
    why: 'who got ahead of others counts as behind them, and deadlocks are missed',
    tests: [priority],
  },
  {
    file: 'src/core/store.c',
    before: ' && extra->priority == 0)',
    after: ')',
    why: 'a priority without a label is lost',
    tests: [priority],
  },

  // The queue.
  {
    file: 'src/core/manager.c',
    before: 'if (is_behind && !wlk_queue_would_be_first(request)) return false;',
    after:
      'if (request->mode == WLK_EXCLUSIVE && is_behind && !wlk_queue_would_be_first(request))\n    return false;',
    why: 'shared requests overtake an exclusive one that waits, for ever',
    tests: [manager, semaphore],
  },
  {
    file: 'src/core/manager.c',
    before: 'resource->units + request->weight <= resource->limit;',
    after: '(resource->limit == 0 || resource->units < resource->limit);',
    why: 'a heavy request is granted where there is room for a light one: more than the limit is held',
    tests: [semaphore],
  },
  {
    file: 'src/core/manager.c',
    before:
      '  withdraw_declaration(turn, request);\n  count_out(resource->part, request);\n  process_the_lock_request_queue(turn, resource);\n',
    after:
      '  withdraw_declaration(turn, request);\n  count_out(resource->part, request);\n  if (request->weight == 0 || wlk_list_is_empty(&resource->held))\n    process_the_lock_request_queue(turn, resource);\n',
    why: 'a semaphore lets nobody in before all of its units are free',
    tests: [semaphore, 'test/extensions/semaphore.test.js'],
  },
  {
    file: 'src/core/manager.c',
    before: '  resource->units = 0;\n}',
    after: '}',
    why: 'a theft of a semaphore keeps its units taken for as long as it is used',
    tests: [semaphore],
  },
  {
    file: 'src/core/manager.c',
    before: '  if (option == WLK_STEAL) process_the_lock_request_queue(turn, resource);\n',
    after: '',
    why: 'shared requests that a shared thief lets in wait until it ends',
    tests: [manager],
  },
  {
    file: 'src/core/manager.c',
    before: 'lock->thief.number = turn->caller->number;',
    after: 'lock->thief.number = lock->agent->number;',
    why: 'who was robbed is told that it robbed itself',
    tests: [extra],
  },
  {
    file: 'src/core/manager.c',
    before: 'if (is_first) unset_limit(resource);',
    after: 'if (is_first && option == WLK_STEAL) unset_limit(resource);',
    why: 'a request that is not made decides the limit of those that are',
    tests: [semaphore],
  },
  {
    file: 'src/core/manager.c',
    before: 'request->resource->pending >= extra->max_pending',
    after: 'request->resource->pending > extra->max_pending',
    why: 'one more waits than the caller puts up with',
    tests: [semaphore, calls],
  },
  {
    file: 'src/core/manager.c',
    before: 'request->token = ++turn->shard->grants;',
    after: 'request->token = turn->shard->grants++;',
    why: 'the first lock of a shard has no token, and fencing takes it for none',
    tests: [semaphore, manager],
  },
  {
    file: 'src/core/manager.c',
    before: '    request->since = wlk_port_now(false);\n    withdraw_declaration',
    after: '    withdraw_declaration',
    why: 'a lock is said to be held since it was asked for, and people look for the wrong culprit',
    tests: [extra, snapshot, 'test/extensions/details.test.js'],
  },
  {
    file: 'src/core/manager.c',
    before:
      'static void process_the_lock_request_queue(struct wlk_turn *turn, struct wlk_resource *resource)\n    WLK_REQUIRES(turn->shard->mutex)\n{\n  WLK_LIST_DRAIN (link, &resource->queue) {',
    after:
      'static void process_the_lock_request_queue(struct wlk_turn *turn, struct wlk_resource *resource)\n    WLK_REQUIRES(turn->shard->mutex)\n{\n  for (struct wlk_link *link = resource->queue.next, *only = link;\n       link != &resource->queue && link == only; link = resource->queue.next) {',
    why: 'a release lets in one of several shared requests: the others wait for nothing',
    tests: [manager],
  },
  // Ends.
  {
    file: 'src/core/manager.c',
    before:
      'status = request->state == WLK_STATE_HELD ? WLK_GRANTED : WLK_STOLEN;\n  }\n  wlk_turn_end(&turn);',
    after:
      'status = request->state == WLK_STATE_HELD ? WLK_GRANTED : WLK_STOLEN;\n    wlk_turn_take_events(&turn, events);\n  }\n  wlk_turn_end(&turn);',
    why: 'an abort that comes too late frees the request that its caller releases next',
    tests: [manager, stress],
  },
  {
    file: 'src/core/manager.c',
    before: 'end_asking(&turn, status == WLK_DEADLOCK, events);',
    after: 'end_asking(&turn, false, events);',
    why: 'events of a request that may be a deadlock are lost: a granted request waits for ever',
    tests: [extra, deadlock],
  },
  {
    file: 'src/core/manager.c',
    before: 'end_asking(&turn, status == WLK_DEADLOCK && !cycle->written, events);',
    after: 'end_asking(&turn, status == WLK_DEADLOCK, events);',
    why: 'a refused request leaves events untaken that nobody wakes its agent for',
    tests: [extra],
  },
  // Blocking.
  {
    file: 'src/core/manager.c',
    before: '  request->awaited = true;\n',
    after: '',
    why: 'a thread that blocks hears of its grant at the end of its time only',
    tests: [extra],
  },
  {
    file: 'src/core/manager.c',
    before: '    wlk_agent_drop_event(request);\n    events->token',
    after: '    events->token',
    why: 'a lock that a thread blocked for is granted once more, to a callback that there is not',
    tests: [extra, sync],
  },
  {
    file: 'src/core/manager.c',
    before: 'if (status != WLK_PENDING) wlk_turn_take_events(&turn, events);',
    after: 'wlk_turn_take_events(&turn, events);',
    why: 'events are taken in a slice of a wait, whose caller promises to take none',
    tests: [extra],
  },
  {
    file: 'src/core/manager.c',
    before: '  own->units += request->weight;\n',
    after: '',
    why: 'a thread blocks for units that it has itself, for ever',
    tests: [semaphore],
  },
  {
    file: 'src/core/manager.c',
    before: 'if (other->agent->thread_id == thread) add_own(&own, other);',
    after: '',
    why: 'a thread blocks behind a request of its own that it cannot serve, for ever',
    tests: [extra, sync],
  },
  // Events and wake-ups.
  {
    file: 'src/core/agent.c',
    before: '  if (woken) agent->woken = false;\n',
    after: '  if (woken && wlk_list_is_empty(&agent->events)) agent->woken = false;\n',
    why: 'the mark of a wake-up stays after it was answered: the next event wakes nobody',
    tests: [agent, manager],
  },
  {
    file: 'src/core/agent.c',
    before: '  agent->woken = true;\n  agent->pins++;',
    after: '  agent->woken = true;',
    why: 'an agent is freed while another thread is about to wake it',
    tests: [wake],
  },
  {
    file: 'src/core/agent.c',
    before:
      'if (--agent->pins == 0 && agent->terminating) wlk_condition_broadcast(&agent->changed);',
    after: '--agent->pins;',
    why: 'a termination that waits for a wake-up waits for ever',
    tests: [wake],
  },
  {
    file: 'src/core/agent.c',
    before: 'if (request->news == 0) wlk_list_append(&agent->events, &request->by_event);',
    after: 'wlk_list_append(&agent->events, &request->by_event);',
    why: 'a grant and a theft of one request tear the list of events',
    tests: [semaphore, agent],
  },
  {
    file: 'src/core/agent.c',
    before: 'bool more = !wlk_list_is_empty(&agent->events);',
    after: 'bool more = false;',
    why: 'events behind one that was taken out are not handed over by calls',
    tests: [agent, manager],
  },
  {
    file: 'src/core/turn.c',
    before:
      '  if (!wlk_list_is_empty(&turn->granted)) wlk_agent_keep(turn->caller, &turn->granted);\n}\n\nvoid wlk_turn_take_events',
    after: '}\n\nvoid wlk_turn_take_events',
    why: 'grants beyond the room of a call are told to nobody',
    tests: [agent],
  },
  {
    file: 'src/core/turn.c',
    before: '  if (wlk_agent_pin(caller)) will_wake(turn, caller);\n',
    after: '',
    why: 'what a full stack left in the core is never handed over',
    tests: [extra, calls],
  },
  {
    file: 'src/core/turn.c',
    before:
      '    agents = agent->next_wake; /* before it wakes, and another turn may do so again */\n    wlk_agent_wake(agent);',
    after: '    wlk_agent_wake(agent);\n    agents = agent->next_wake;',
    why: 'an agent that was woken, and freed or told of more, says who is to be woken next',
    tests: [wake],
  },
  {
    file: 'src/core/turn.c',
    before: '    wlk_forget_lock(turn->process, request);\n',
    after: '',
    why: 'a search for deadlocks looks at a lock whose memory is gone',
    tests: [extra, deadlock],
  },
  {
    file: 'src/core/turn.c',
    before:
      '  for (int i = 0; i < WLK_SHARDS; i++) wlk_mutex_lock(&process->shards[i].mutex);\n  wlk_mutex_lock(&process->mutex);',
    after:
      '  wlk_mutex_lock(&process->mutex);\n  for (int i = 0; i < WLK_SHARDS; i++) wlk_mutex_lock(&process->shards[i].mutex);',
    why: 'two threads take the mutexes in opposite orders and wait for each other',
    tests: [extra],
  },
  // Deadlocks.
  {
    file: 'src/core/deadlock.c',
    before: 'if (room > most) most = room;',
    after: 'if (room > most && room != ALL) most = room;',
    why: 'a deadlock over a request that waits ahead in the queue is not found',
    tests: [extra, semaphore, deadlock],
  },
  {
    file: 'src/core/deadlock.c',
    before: 'return units > request->resource->limit ? first : NULL;',
    after: 'return units >= request->resource->limit ? first : NULL;',
    why: 'a request that would be granted is refused as a deadlock',
    tests: [semaphore, extra],
  },
  {
    file: 'src/core/deadlock.c',
    before:
      'lock->mode == WLK_SHARED && room != ALL && lock->weight + room <= lock->resource->limit;',
    after: 'lock->mode == WLK_SHARED && room != ALL;',
    why: 'a deadlock of a heavy request behind a light one is not found',
    tests: [semaphore],
  },
  // Marks.
  {
    file: 'src/core/mark.c',
    before: 'if (mark->until > now || can_be_set(part, mark)) {',
    after: 'if (mark->until > now || (mark->until > 0 && can_be_set(part, mark))) {',
    why: 'what a lock is about to mark is dropped meanwhile: its work is done twice',
    tests: [mark],
  },
  {
    file: 'src/core/mark.c',
    before: '  mark->token = lock->token;\n',
    after: '  if (mark->token == 0) mark->token = lock->token;\n',
    why: 'after a holder that marked nothing nobody can mark the name any more',
    tests: [mark],
  },
  {
    file: 'src/core/mark.c',
    before: 'if (!mark || mark->token != lock->token) return false;',
    after: 'if (!mark) return false;',
    why: 'a lock that never asked marks the name as done',
    tests: [mark],
  },
  // Names and memory.
  {
    file: 'src/core/store.c',
    before: '  resource->limit_is_set = false;\n',
    after: '',
    why: 'a new name has a limit that another one had',
    tests: [semaphore, resource],
  },
  {
    file: 'src/core/store.c',
    before: 'extra && extra->limit > 0 && mode == WLK_SHARED ? extra->weight : 0;',
    after: 'extra && extra->limit > 0 ? extra->weight : 0;',
    why: 'an exclusive lock takes units, of a name that may have no limit',
    tests: [semaphore],
  },
  {
    file: 'src/core/manager.c',
    before: '  part->labels -= wlk_label_length(request) > 0;\n',
    after: '',
    why: 'snapshots need more and more memory',
    tests: [extra, snapshot],
  },
  {
    file: 'src/core/snapshot.c',
    before: '.token_high = held ? (uint32_t)(request->token >> 32) : 0,',
    after: '.token_high = 0,',
    why: 'the token of a lock that others see is another one than its holder has',
    tests: [semaphore, snapshot],
  },
  {
    file: 'src/core/process.c',
    before: 'return same && (*process)->abi == own_process.abi ? WLK_OK : WLK_OTHER_VERSION;',
    after: 'return same ? WLK_OK : WLK_OTHER_VERSION;',
    why: 'two copies with different layouts work on the same memory',
    tests: ['test/package/loading.test.js'],
  },
  // The binding.
  {
    file: 'src/binding/environment.cc',
    before: '  if (!has_taken(environment)) {\n    wake_itself(environment);\n    return;\n  }',
    after: '  if (!has_taken(environment)) return;',
    why: 'events that a full stack left are never handed over',
    tests: [calls],
  },
  {
    file: 'src/binding/environment.cc',
    before: 'environment->events.capacity = has_taken(environment) ? environment->room : 0;',
    after: 'environment->events.capacity = environment->room;',
    why: 'events that JavaScript has not taken yet are overwritten',
    tests: [calls],
  },
  {
    file: 'src/binding/environment.cc',
    before: 'if (exchange->events[i].tag == tag) exchange->events[i].news = 0;',
    after: 'if (exchange->events[i].tag == tag) continue;',
    why: 'the event of a request that was undone grants the next one with its tag',
    tests: [calls],
  },
  {
    file: 'src/binding/environment.cc',
    before: 'if (!slot || (slot->kind == SLOT_CORE) != (scope == SLOT_CORE)) return;',
    after: 'if (!slot) return;',
    why: 'an event of one scope ends the request of the other that has its tag by now',
    tests: [calls, 'test/host/later.test.js'],
  },
  {
    file: 'src/binding/environment.cc',
    before: 'if (event->news & ~kNewsOfTheLiving) environment_forget(environment, event->tag);',
    after: '',
    why: 'native code keeps a pointer to a request that ended, under a tag that is free',
    tests: [calls, stolen, 'test/threads/steal.test.js'],
  },
  {
    file: 'src/binding/environment.cc',
    before: '  set_pending(environment, slot, false);\n  slot->thing = nullptr;',
    after: '  slot->thing = nullptr;',
    why: 'a request that was aborted keeps the process alive for ever',
    tests: [calls, 'test/threads/liveness.test.js'],
  },
  {
    file: 'src/binding/environment.cc',
    before: '  set_waking(static_cast<Environment *>(context), false);\n',
    after: '',
    why: 'the environment wakes itself once in its life',
    tests: [calls],
  },
  {
    file: 'src/binding/environment.cc',
    before:
      '  wlk_agent_terminate(environment->agent);\n  environment->agent = nullptr;\n  /* No other',
    after: '  environment->agent = nullptr;\n  /* No other',
    why: 'the locks of a worker that ends are held for ever',
    tests: ['test/threads/termination.test.js'],
  },
  {
    file: 'src/core/port_posix.c',
    before: 'if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;',
    after: 'if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return -1;',
    why: 'the clock of leases stands still while the machine sleeps',
    tests: [clock, 'test/cluster/clock.test.js'],
  },
  {
    file: 'src/binding/requests.cc',
    before: '*fate = answer == WLK_GRANTED ? GRANTED : answer == WLK_PENDING ? STAYS : ENDED;',
    after: '*fate = answer == WLK_GRANTED || answer == WLK_PENDING ? STAYS : ENDED;',
    why: 'a lock that a thread blocked for keeps the event loop alive',
    tests: [sync, 'test/threads/blocking.test.js'],
  },
  {
    file: 'src/binding/requests.cc',
    before: 'extra->weight = exchange.weight < extra->limit ? exchange.weight : extra->limit;',
    after: 'extra->weight = exchange.weight;',
    why: 'a request that takes more units than there are is never granted, nor those behind it',
    tests: [calls],
  },
  {
    file: 'src/binding/requests.cc',
    before: 'if (lock) requests_[extra->inside_count++] = lock;',
    after: 'requests_[extra->inside_count++] = lock;',
    why: 'a lock that ended while a request is made inside of it crashes the process',
    tests: [calls],
  },
  {
    file: 'src/binding/host_requests.cc',
    before: '*fate = answer == WLH_PENDING ? AWAITED : answer == WLH_NOT_HELD ? STAYS : ENDED;',
    after: '*fate = answer == WLH_PENDING || answer == WLH_NOT_HELD ? STAYS : ENDED;',
    why: 'the process ends before a release that it waits for is done',
    tests: [calls],
  },
  {
    file: 'src/binding/host.cc',
    before: 'host->woken.exchange(false)',
    after: 'false',
    why: 'the host scope wakes a thread once, and never again',
    tests: ['test/host/later.test.js', 'test/host/processes.test.js'],
  },
];
