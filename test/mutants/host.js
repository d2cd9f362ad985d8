'use strict';

/** The host scope in C: the tables that processes share, and what they do when others die. */

const cells = 'host:cells_test';
const priorities = 'host:priority_test';
const processes = 'host:processes_test';
const threads = 'host:threads_test';
const turns = 'host:turn_test';
const between = 'host:between_test';
const harm = 'host:harm_test';
const files = 'test/host/files.test.js';

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  // Requests and queues.
  {
    file: 'src/host/requests.c',
    before: '(wlh_would_be_first(arena, cell, asking->ask->priority) &&',
    after: '(',
    why: 'readers overtake a writer that waits, for ever',
    tests: [cells],
  },
  {
    file: 'src/host/requests.c',
    before: 'WLH_PUT(cell->priority, asking->ask->priority);',
    after: 'WLH_PUT(cell->priority, 0);',
    why: 'nobody has a priority',
    tests: [priorities],
  },
  {
    file: 'src/host/requests.c',
    before: 'cell->pending >= ask->max_pending',
    after: 'cell->pending > ask->max_pending',
    why: 'one more waits than a caller allows',
    tests: [cells],
  },
  {
    file: 'src/host/requests.c',
    before: 'if (refusal == WLH_CELLS_FULL) return wlh_cells_bury(arena);',
    after: '',
    why: 'a segment full of what the dead had refuses the living',
    tests: [cells],
  },
  {
    file: 'src/host/requests.c',
    before: 'if (!untold) wlh_mail(arena, request);',
    after: 'if (untold) wlh_mail(arena, request);',
    why: 'who is robbed is never told, and goes on',
    tests: [cells],
  },
  {
    file: 'src/host/requests.c',
    before: 'WLH_PUT(cell->weight, 0);\n}\n\n/* Fills',
    after: '}\n\n/* Fills',
    why: 'units of stolen locks stay taken, and a semaphore gets smaller by each theft',
    tests: [cells, 'host:compare'],
  },
  {
    file: 'src/host/requests.c',
    before: 'cell->member == arena->member &&\n         cell->cookie == cookie;',
    after: 'cell->member == arena->member &&\n         cookie != 0;',
    why: 'a late release ends the request that has got the same cell',
    tests: [cells],
  },
  {
    file: 'src/host/requests.c',
    before: 'if (kind != WLH_KIND_PENDING) return WLH_CELLS_GRANTED;',
    after: '',
    why: 'an abort that comes after the grant releases a lock that is in use',
    tests: [cells],
  },
  {
    file: 'src/host/queue.c',
    before: '(uint64_t)resource->weight + weight <= wlh_limit_number(resource->limit);',
    after: '(uint64_t)resource->weight + weight <= wlh_limit_number(resource->limit) + 1;',
    why: 'a semaphore lets in one more than it has units',
    tests: [cells],
  },
  {
    file: 'src/host/queue.c',
    before: 'return other == 0 || priority_of(arena, other) < priority;',
    after: 'return other == 0 || priority_of(arena, other) <= priority;',
    why: 'a reader overtakes a writer of its own priority, for ever',
    tests: [cells, priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'levels.head != 0 ? resource->queue.head : resource->queue.tail;',
    after: 'levels.head != 0 ? resource->queue.tail : resource->queue.head;',
    why: 'who has more priority than the last one gets past all others',
    tests: [priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'if (last != 0 && priority_of(arena, last) != priority_of(arena, request))',
    after: 'if (last != 0 && priority_of(arena, last) < priority_of(arena, request))',
    why: 'who comes for less than all has the place of the lowest that waited before',
    tests: [priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'if (priority_of(arena, level) >= priority) return lower;',
    after: 'if (priority_of(arena, level) > priority) return lower;',
    why: 'who has the priority of some that wait in the middle gets ahead of them',
    tests: [priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'if (begins && !is_last) wlh_list_insert',
    after: 'if (false) wlh_list_insert',
    why: 'when the first of a priority leaves, others get ahead of the rest of it',
    tests: [priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'else if (is_last && resource->queue.head == request)',
    after: 'else if (false)',
    why: 'a priority stays listed that is the only one, and a later one is put into its middle',
    tests: [priorities],
  },
  {
    file: 'src/host/queue.c',
    before: 'if (request_cell->kind == WLH_KIND_NEWS_HELD) wlh_unmail(arena, request);',
    after: '',
    why: 'a lock that is released before its grant is read leaves mail about a free cell',
    tests: [cells],
  },
  {
    file: 'src/host/queue.c',
    before: 'uint64_t token = header->token + 1;',
    after: 'uint64_t token = header->token;',
    why: 'two grants have the same token',
    tests: [cells],
  },

  {
    file: 'src/host/queue.c',
    before: 'if (token <= arena->token || token >= WLH_COUNT_MOST) wlh_damage(arena);',
    after: 'if (token >= WLH_COUNT_MOST) wlh_damage(arena);',
    why: 'who is granted a lock while the file is overwritten has the first token once more',
    tests: [cells],
  },

  {
    file: 'src/host/errand.c',
    before: 'entry->priority,',
    after: '0,',
    why: 'details of other processes say that nobody has a priority',
    tests: ['test/host/priority.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: 'exchange[PRIORITY] = priority ?? 0;',
    after: '',
    why: 'a request has the priority of the last one that this thread gave one',
    tests: ['test/host/priority.test.js'],
  },

  // Repairs.
  {
    file: 'src/host/rebuild.c',
    before: 'if (is_in && !wlh_lives(arena, i)) wlh_commit',
    after: 'if (false) wlh_commit',
    why: 'what the dead hold is held for ever',
    tests: [cells],
  },
  {
    file: 'src/host/rebuild.c',
    before: 'if (held && !wlh_fits(arena, resource, cell->mode, cell->weight)) wlh_damage(arena);',
    after: '',
    why: 'two exclusive holders are taken over as they are',
    tests: [cells],
  },
  {
    file: 'src/host/rebuild.c',
    before: 'return a_waits ? a->priority >= b->priority : a->token <= b->token;',
    after: 'return a_waits ? a->priority >= b->priority : a->ticket <= b->ticket;',
    why: 'locks that were granted by priority are damage to who repairs the tables, and are lost',
    tests: [priorities, cells],
  },
  {
    file: 'src/host/rebuild.c',
    before: 'WLH_PUT(cell->levels, (struct wlh_list){0});',
    after: '',
    why: 'what a torn queue says of priorities is believed by who repairs it',
    tests: [priorities, 'host:torn_test'],
  },
  {
    file: 'src/host/rebuild.c',
    before: 'if (!arena->poisoned) settle_queues(arena, top);',
    after: 'if (!arena->poisoned) settle_queues(arena, 1);',
    why: 'who waits for the dead is not let in',
    tests: [cells],
  },
  {
    file: 'src/host/arena.c',
    before: 'return header->boot == boot && header->token',
    after: 'return boot != 0 && header->token',
    why: 'a token that harm made huge is believed after the next boot',
    tests: [cells],
  },
  {
    file: 'src/host/arena.c',
    before:
      'bool possible = wlh_is_size(ncells, wlh_read(&header->nmembers)) && ncells >= arena->ncells;',
    after: 'bool possible = ncells >= arena->ncells && wlh_read(&header->nmembers) == WLH_MEMBERS;',
    why: 'a number of cells that harm made is used as a size, and as a mask',
    tests: [cells],
  },
  {
    file: 'src/host/arena.c',
    before: 'return member->state == WLH_MEMBER_IN && member->id == arena->id;',
    after: 'return member->state == WLH_MEMBER_IN;',
    why: 'a process that was taken for dead uses the cells of the one that has its number now',
    tests: [cells],
  },
  {
    file: 'src/host/view.c',
    before: 'uint32_t units = wlh_length(viewing->arena, &cell->label_units, WLH_LABEL_MOST);',
    after: 'uint32_t units = cell->label_units;',
    why: 'the length of a label that harm made huge asks for as much memory',
    tests: [cells, 'host:damage'],
  },
  {
    file: 'src/host/segment.h',
    before: ' && (ncells & (ncells - 1)) == 0',
    after: '',
    why: 'a number of cells that is no power of two makes a mask that leads anywhere',
    tests: [cells],
  },
  {
    file: 'src/host/arena.c',
    before: 'header->token < arena->token',
    after: 'false',
    why: 'tokens that harm set back are given twice, and the file is used on',
    tests: [cells],
  },

  // Turns, bells, the helper.
  {
    file: 'src/host/turn.c',
    before: 'if (good && dead != 0) good =',
    after: 'if (good && dead == 1) good =',
    why: 'what a process left half done when it died is used as it is',
    tests: [turns],
  },
  {
    file: 'src/host/turn.c',
    before: 'if (any && bucket->stealing) wlh_bell_pay(bucket, owed);',
    after: '',
    why: 'a thief that dies at once leaves the robbed with a lock that they take for theirs',
    tests: [between],
  },
  {
    file: 'src/host/turn.c',
    before: 'leave_word(bucket, dead);\n  return WLH_TORN;',
    after: 'leave_word(bucket, 0);\n  return WLH_TORN;',
    why: 'tables that somebody left half done look whole to the next one',
    tests: [turns],
  },
  {
    file: 'src/host/turn.c',
    before: 'bool watch = (look || !seen) && wlh_cells_pending(&bucket->arena) > 0;',
    after: 'bool watch = look && !seen && wlh_cells_pending(&bucket->arena) > 0;',
    why: 'who begins to wait does not see that the holder dies',
    tests: [processes],
  },
  {
    file: 'src/host/bell.c',
    before: 'if (sent == WLH_NOT_NOW) return false;',
    after: '',
    why: 'a wake-up that cannot be sent now counts as sent, and the other one sleeps for ever',
    tests: [between],
  },
  {
    file: 'src/host/later.c',
    before: 'wlk_list_prepend(&bucket->put_off, &item->by_put_off);',
    after: 'wlk_list_append(&bucket->put_off, &item->by_put_off);',
    why: 'what was asked first, and needed room, comes after what was asked later',
    tests: [turns],
  },
  {
    file: 'src/host/later.c',
    before: 'if (given_up) end_put_off(bucket, request);',
    after: '',
    why: 'a request that was given up while it was made holds the lock for nobody',
    tests: [turns, threads],
  },
  {
    file: 'src/host/opening.c',
    before: 'if (judge(bucket, boot, failure) == GOOD && !wlh_is_lost(bucket)) return WLH_OK;',
    after: 'if (!wlh_is_lost(bucket)) return WLH_OK;',
    why: 'who opens while another one formats uses a segment that is about to be cleared',
    tests: [between],
  },
  {
    file: 'src/host/opening.c',
    before: 'if (header->token < now && now < WLH_COUNT_MOST / 2) header->token = now;',
    after: '(void)now;',
    why: 'tokens go back when the file is deleted, which is when fencing needs them',
    tests: [harm, files],
  },
  {
    file: 'src/host/helper.c',
    before: 'bucket->no_room = error != 0;',
    after: '',
    why: 'where the file has grown and cannot be mapped, the helper asks for room for ever',
    tests: [turns],
  },
  {
    file: 'src/host/helper.c',
    before: 'if (dead) (void)wlh_cells_bury(&bucket->arena);',
    after: '(void)dead;',
    why: 'who waits for a process that was killed waits for ever',
    tests: [processes],
  },
  {
    file: 'src/host/agents.c',
    before: 'wlk_list_remove(&agent->by_wake);',
    after: '',
    why: 'a thread that ends is woken after its memory is gone',
    tests: [turns, threads],
  },
  {
    file: 'src/host/turn.c',
    before: 'if (!wlh_is_lost(bucket)) wlh_mail_take(bucket);',
    after: 'wlh_mail_take(bucket);',
    why: 'a process that was taken for dead takes the mail of the one that has its number now, which hears nothing',
    tests: [turns],
  },
  {
    file: 'src/host/later.c',
    before: '    wlh_mail_take(bucket); /*',
    after: '    /*',
    why: 'a thread hears of a grant before it hears that it was robbed of the name: it has two locks',
    tests: [turns],
  },
  {
    file: 'src/host/rebuild.c',
    before: 'if (wlh_is_news(kind)) wlh_mail(arena, request);',
    after: 'if (kind == WLH_KIND_NEWS_HELD) wlh_mail(arena, request);',
    why: 'who was robbed before a repair, and not told, is never told',
    tests: [cells],
  },
  {
    file: 'src/host/waiting.c',
    before: 'if (status != WLH_PENDING) wlh_take_events(agent, events);',
    after: '',
    why: 'acquireSync returns a lock while the one that was stolen before is still held here',
    tests: [turns],
  },
  {
    file: 'src/binding/host.cc',
    before: 'while (host && host->bucket != bucket) host = host->next;',
    after: 'host = nullptr;\n  (void)bucket;',
    why: 'a bucket that is opened twice has two queues of events, and a theft comes after the grant',
    tests: ['test/host/robbed.test.js'],
  },
  {
    file: 'src/binding/host_requests.cc',
    before: 'wlh_end_errand(client, tag);',
    after: '(void)client;',
    why: 'the answer to a query of a closed bucket ends the request that has its number now',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'src/host/ending.c',
    before: 'bool takes = answered && (ending == RELEASE || *status == WLH_OK);',
    after: 'bool takes = answered;',
    why: 'the event that says of a request that it is granted is lost when it is aborted just then',
    tests: [turns],
  },
  {
    file: 'src/host/ending.c',
    before: '(state == WLH_HELD) != (ending == RELEASE)',
    after: 'false',
    why: 'an abort releases a lock that is in use, or a release ends a request that waits',
    tests: [turns],
  },
  {
    file: 'src/host/opening.c',
    before: 'if (header->token < now && now',
    after: 'if (now',
    why: 'where the clock was set back a file that is made anew gives tokens for the second time',
    tests: [harm],
  },
  {
    file: 'src/host/helper.c',
    before: 'MIND_EACH   UINT64_C(1000000000)',
    after: 'MIND_EACH   UINT64_C(100000000000000)',
    why: 'that a directory above was moved is noticed a day later: two hold the lock till then',
    tests: [harm],
  },
  {
    file: 'src/host/port_posix_paths.c',
    before:
      'if (status->st_gid == port->gid && (status->st_mode & rights) == rights) return WLH_OK;',
    after: 'return WLH_OK;',
    why: 'a file that a member of the group put there, and others of it cannot use, is used',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_paths.c',
    before: 'return fchmod(descriptor, mode) == 0;',
    after: '(void)mode;\n  return true;',
    why: 'a second user of the group cannot open what the first one made',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_sockets.c',
    before: 'return errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_NOT_NOW;',
    after: 'return errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_SENT;',
    why: 'a wake-up for which the system has no room just now counts as sent',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_sockets.c',
    before:
      'bool bound = descriptor >= 0 && place >= 0 && bind_in(port, descriptor, type, place, name);\n' +
      '  bound = bound && renameat(place, name, port->directory, final) == 0;',
    after:
      'bool bound = descriptor >= 0 && bind_in(port, descriptor, type, port->directory, final);',
    why: 'a member of the group can have any file of another user made writable for the group',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_paths.c',
    before: 'int made = own < 0 ? -1 : open_directory(own, name);',
    after:
      'if (mkdirat(port->base, bucket_of(port), 0700) != 0) return errno == EEXIST;\n' +
      '  int made = openat(port->base, bucket_of(port), DIRECTORY_FLAGS);',
    why: 'who opens while another user makes the directory is refused, for ever if that one is killed',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_paths.c',
    before: 'int file = own < 0 ? -1 : make_shared_file(port, own, name);\n  if (file >= 0) {',
    after: 'int file = make_shared_file(port, port->directory, "bucket");\n  if (false) {',
    why: 'who opens while another user makes the file anew is refused, for ever if that one is killed',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_failures.c',
    before: 'if (errno != ENOENT) return wlh_port_unsupported(failure, path, what);',
    after: 'if (errno != 0) return wlh_port_unsupported(failure, path, what);',
    why: 'what is deleted while it is opened is said to be of a kind that does not work',
    tests: [between],
  },
  {
    file: 'src/host/opening.c',
    before: 'if (error == ENOENT) {',
    after: 'if (error == ENOENT && bucket->standard) {',
    why: 'a directory that vanishes while sockets are bound in it is said to be of a kind that does not work',
    tests: [between],
  },
  {
    file: 'src/host/port_posix_locks.c',
    before: 'bool taken = byte_lock(other, F_OFD_SETLK, F_WRLCK, PROBE, &lock);',
    after: 'bool taken = byte_lock(other, F_OFD_SETLK + 1, F_WRLCK, PROBE, &lock);',
    why: 'opening waits for a process that is stopped while it tests whether locks work',
    tests: [between, harm],
  },
  {
    file: 'src/host/helper.c',
    before: 'if (watch->descriptor >= 0 || watch->look_at != 0) continue;',
    after: 'if (watch->descriptor >= 0) continue;',
    why: 'with many members and few descriptors each grant takes as long as hundreds of connections',
    tests: [between],
  },
  {
    file: 'lib/backend/host.js',
    before:
      'return detailsOf(await this.#snapshot(name, false));\n    } catch {\n      return undefined;',
    after: 'return detailsOf(await this.#snapshot(name, false));\n    } catch {\n      return [];',
    why: 'who asks in vain who holds a lock says that nobody does',
    tests: ['test/lib/holders.test.js'],
  },
];
