/* A step in the tables: its commit, death at any store of it, and the rebuild by whoever is inside
 * next, which can die at any store, too.
 *
 * One name, exclusive locks, one request at a time of each process. What stands for what, to be
 * read
 * beside src/host:
 *   kind, owner, ticket, token, unreported   fields of struct wlh_request_cell (segment.h)
 *   state, next_ticket, last_token       `state` of a member, `ticket` and `token` of the header
 *   queue, held, mail, free              the lists: derived, marked * in segment.h
 *   add, drop            wlh_list_add, wlh_list_remove (lists.c), in two stores each
 *   commit               wlh_commit_kind (store.h)
 *   give                 wlh_pool_free (pool.c)
 *   grant                wlh_grant (queue.c)
 *   process_queue        wlh_process_the_lock_request_queue (queue.c)
 *   fill, request        fill, make (requests.c)
 *   steal                steal_the_held_locks (requests.c)
 *   end_request          wlh_end_cell (queue.c): a release and an abort
 *   take_mail            wlh_cells_take_messages (members.c), at the end of each turn
 *   rebuild, bury        wlh_cells_rebuild, wlh_cells_reap (rebuild.c)
 *   join                 wlh_cells_join (members.c)
 *   turn                 wlh_enter or wlh_try_enter, to wlh_leave_tables (section.c)
 * Not here: names, labels and agents, which are cells that mean nothing until a request leads to
 * them;
 * shared locks and limits; growth.
 *
 * Each statement is a store, and the process inside can be killed before each. mutex.pml shows that
 * there is one inside, and that the next one knows of a death inside (`torn`), so here one turn
 * comes
 * after the other.
 *
 * Order of memory: the code has a compiler fence at a commit and none of the processor. A killed
 * process has executed a prefix of its instructions, and all of them are visible to who has proof
 * of
 * its death (mutex.pml). So a prefix of the stores here is all that anybody finds. Stores between
 * two
 * commits may come in any order; here they come in one, but they are of fields that nobody reads
 * while
 * `kind` says FREE, and of lists, which nobody believes after a death.
 *
 * Properties, looked for when somebody is inside and has repaired what was torn (`look`):
 *   the lists say what the kinds say; two are never held; nobody waits while nothing is held;
 *   a cell belongs to a member that is in, and to this life of it;
 *   what a living process believes of its request is so, or there is mail that says otherwise;
 *   grants are in the order of tickets, each token is greater than all before.
 *
 * Each WITHOUT_ takes one rule away; run.sh sees that Spin then finds an error. */

#define MEMBERS 3
#define CELLS   3 /* one for the request of each: what is stolen stays until its process was told */
#ifndef TURNS
#define TURNS   4
#endif
#define DEATHS  2
#define BIRTHS  1 /* of processes that get the number of a dead one */
#define NONE    CELLS

mtype = { FREE, PENDING, NEWS_HELD, HELD, NEWS_BROKEN }

typedef list {
  byte count;
  byte at[CELLS]
}

/* Truth. */
mtype kind[CELLS] = FREE;
byte owner[CELLS], ticket[CELLS], token[CELLS];
bool unreported[CELLS];
bool state[MEMBERS] = true; /* whether it is in */
byte next_ticket = 1, last_token;

/* Derived. */
list queue, held, free, mail[MEMBERS];

/* Processes, and what each believes of its request: the cell, and PENDING or HELD. */
bool alive[MEMBERS] = true, joined[MEMBERS] = true;
byte mine[MEMBERS] = NONE;
mtype belief[MEMBERS] = PENDING;

/* What Spin knows, and the code does not. */
bool torn, killed, stealing;
bool own[CELLS]; /* whether it was this life of its member that made the request */
byte most;       /* the greatest token that was given */
byte deaths, births;

byte me, c, k, i, n; /* of the process inside */
bool there;

/* ---- stores ---- */

inline add(l, cell)
{
  l.at[l.count] = cell;
  l.count++
}

inline drop(l, cell)
{
  d_step {
    k = 0;
    do
    :: k < l.count && l.at[k] != cell -> k++
    :: else -> break
    od;
    assert(k < l.count);
    do
    :: k + 1 < CELLS -> l.at[k] = l.at[k + 1]; k++
    :: else -> break
    od;
    l.at[CELLS - 1] = 0;
    k = 0
  };
  l.count--
}

inline clear(l)
{
  d_step { l.count = 0; l.at[0] = 0; l.at[1] = 0; l.at[2] = 0 }
}

inline commit(cell, what)
{
  d_step {
    kind[cell] = what;
    own[cell] = (what != FREE)
  }
}

inline give(cell)
{
  commit(cell, FREE);
  add(free, cell)
}

/* ---- grants ---- */

inline commit_grant(cell, what)
{
  d_step {
    kind[cell] = what;
    own[cell] = true;
    assert(token[cell] > most);
    most = token[cell];
    for (k : 0 .. CELLS - 1) {
      assert(stealing || k == cell || kind[k] != PENDING || ticket[k] > ticket[cell])
    }
    k = 0
  }
}

inline grant(cell, what)
{
#ifdef WITHOUT_TOKEN_FIRST
  token[cell] = last_token + 1;
  commit_grant(cell, what);
  last_token = token[cell]
#else
  last_token++;
  token[cell] = last_token;
  commit_grant(cell, what)
#endif
}

inline process_queue()
{
  if
  :: queue.count > 0 && held.count == 0 ->
    i = queue.at[0];
#ifdef WITHOUT_NEWS_IN_THE_CELL
    grant(i, HELD);
#else
    grant(i, NEWS_HELD);
#endif
    drop(queue, i);
    add(held, i);
    add(mail[owner[i]], i)
  :: else
  fi
}

/* ---- requests, and their ends ---- */

inline write_fields()
{
  ticket[c] = next_ticket - 1;
  owner[c] = me;
  unreported[c] = false
}

inline fill()
{
  c = free.at[free.count - 1];
  free.count--;
  next_ticket++;
#ifndef WITHOUT_KIND_LAST
  write_fields()
#endif
}

inline end_fill()
{
#ifdef WITHOUT_KIND_LAST
  write_fields();
#endif
  mine[me] = c
}

inline request()
{
  fill();
  if
  :: queue.count == 0 && held.count == 0 ->
    grant(c, HELD);
    add(held, c);
    end_fill();
    belief[me] = HELD
  :: else ->
    commit(c, PENDING);
    add(queue, c);
    end_fill();
    belief[me] = PENDING
  fi
}

inline break_held()
{
  if
  :: n != 0 ->
    i = held.at[0];
    unreported[i] = (kind[i] == NEWS_HELD);
#ifdef WITHOUT_THEFT_IN_THE_CELL
    commit(i, FREE);
#else
    commit(i, NEWS_BROKEN);
#endif
    drop(held, i);
    if
    :: unreported[i] /* it is in the mail */
    :: else -> add(mail[owner[i]], i)
    fi
  :: else
  fi
}

inline steal()
{
  stealing = true;
  n = held.count;
#ifndef WITHOUT_BREAKING_FIRST
  break_held();
#endif
  fill();
  grant(c, HELD);
#ifdef WITHOUT_BREAKING_FIRST
  break_held();
#endif
  add(held, c);
  end_fill();
  belief[me] = HELD;
  stealing = false
}

inline end_request()
{
  c = mine[me];
  if
  :: kind[c] == NEWS_BROKEN -> drop(mail[me], c); give(c)
  :: else ->
    if
    :: kind[c] == PENDING -> drop(queue, c)
    :: kind[c] == NEWS_HELD -> drop(mail[me], c); drop(held, c)
    :: kind[c] == HELD -> drop(held, c)
    fi;
    give(c);
    process_queue()
  fi;
  mine[me] = NONE
}

inline take_mail()
{
  do
  :: mail[me].count > 0 ->
    c = mail[me].at[0];
    drop(mail[me], c);
    if
    :: kind[c] == NEWS_BROKEN -> give(c); mine[me] = NONE
    :: else -> commit(c, HELD); belief[me] = HELD
    fi
  :: else -> break
  od
}

/* ---- after a death ---- */

/* The request with the next ticket after that of `c` (NONE: the first); NONE if there is none. */
inline next_request()
{
  d_step {
#ifdef WITHOUT_ORDER_OF_TICKETS
    k = (c == NONE -> 0 : c + 1);
    do
    :: k < CELLS && kind[k] == FREE -> k++
    :: else -> break
    od;
    c = k;
#else
    i = NONE;
    for (k : 0 .. CELLS - 1) {
      if
      :: kind[k] != FREE && (c == NONE || ticket[k] > ticket[c]) &&
         (i == NONE || ticket[k] < ticket[i]) -> i = k
      :: else
      fi
    }
    c = i;
    i = 0;
#endif
    k = 0
  }
}

inline rebuild()
{
  n = 0;
  do
  :: n < MEMBERS ->
    if
    :: state[n] && !alive[n] -> state[n] = false
    :: else
    fi;
    clear(mail[n]);
    n++
  :: else -> break
  od;

  clear(queue);
  clear(held);
  n = 0;
  do
  :: n < CELLS ->
    if
#ifndef WITHOUT_DROPPING_THE_DEAD
    :: kind[n] != FREE && !state[owner[n]] -> commit(n, FREE)
#endif
    :: else
    fi;
    n++
  :: else -> break
  od;
  n = 0;

  /* thefts are mailed before grants */
  c = NONE;
  do
  :: next_request();
    if
    :: c == NONE -> break
    :: else ->
      if
      :: kind[c] == NEWS_BROKEN -> add(mail[owner[c]], c)
      :: else
      fi
    fi
  od;
  do
  :: next_request();
    if
    :: c == NONE -> break
    :: else ->
      if
      :: token[c] > last_token && kind[c] != PENDING -> last_token = token[c]
      :: else
      fi;
      if
      :: kind[c] == PENDING -> add(queue, c)
      :: kind[c] == NEWS_BROKEN
      :: else ->
        assert(held.count == 0); /* two holders: damage */
        add(held, c);
        if
        :: kind[c] == NEWS_HELD -> add(mail[owner[c]], c)
        :: else
        fi
      fi
    fi
  od;

  clear(free);
  n = CELLS;
  do
  :: n > 0 ->
    n--;
    if
    :: kind[n] == FREE -> add(free, n)
    :: else
    fi
  :: else -> break
  od;
#ifndef WITHOUT_SETTLING
  process_queue()
#endif
}

inline bury()
{
  if
  :: (state[0] && !alive[0]) || (state[1] && !alive[1]) || (state[2] && !alive[2]) -> rebuild()
  :: else
  fi
}

inline join()
{
  if
#ifndef WITHOUT_BURYING_THE_PREDECESSOR
  :: state[me] -> state[me] = false; rebuild()
#endif
  :: else -> bury()
  fi;
  state[me] = true;
  joined[me] = true
}

/* ---- what always holds when somebody is inside, and nothing is torn ---- */

/* Sets `there`: whether `cell` is in the list. */
inline find(l, cell)
{
  there = false;
  for (k : 0 .. CELLS - 1) {
    there = there || (k < l.count && l.at[k] == cell)
  }
}

inline look()
{
  d_step {
    assert(held.count <= 1);
    assert(queue.count == 0 || held.count > 0);
    assert(queue.count < 2 || ticket[queue.at[0]] < ticket[queue.at[1]]);
    assert(queue.count < 3 || ticket[queue.at[1]] < ticket[queue.at[2]]);
    n = 0;
    for (i : 0 .. CELLS - 1) {
      find(free, i);
      assert(there == (kind[i] == FREE));
      find(queue, i);
      assert(there == (kind[i] == PENDING));
      find(held, i);
      assert(there == (kind[i] == HELD || kind[i] == NEWS_HELD));
      if
      :: kind[i] != FREE ->
        find(mail[owner[i]], i);
        assert(there == (kind[i] == NEWS_HELD || kind[i] == NEWS_BROKEN));
        n = n + there;
        assert(state[owner[i]]);
        assert(own[i] || !alive[owner[i]] || !joined[owner[i]])
      :: else
      fi
    }
    assert(mail[0].count + mail[1].count + mail[2].count == n);
    for (i : 0 .. MEMBERS - 1) {
      if
      :: alive[i] && joined[i] && mine[i] != NONE ->
        c = mine[i];
        assert(kind[c] != FREE && owner[c] == i && own[c]);
        assert(belief[i] != HELD || kind[c] == HELD || kind[c] == NEWS_BROKEN);
        assert(belief[i] != PENDING || kind[c] == PENDING || kind[c] == NEWS_HELD ||
               (kind[c] == NEWS_BROKEN && unreported[c]))
      :: else
      fi
    }
    i = 0;
    k = 0;
    n = 0;
    c = 0;
    there = false
  }
}

/* ---- turns ---- */

active proctype killer()
{
end:
  do
  :: atomic { torn && !killed && deaths < DEATHS -> killed = true; deaths++ }
  od
}

inline turn()
{
  if
  :: torn ->
#ifndef WITHOUT_LISTS_MADE_ANEW
    rebuild()
#endif
  :: else
  fi;
  look();
  torn = true;
  if
  :: !joined[me] -> join()
  :: joined[me] && mine[me] == NONE -> request()
  :: joined[me] && mine[me] == NONE -> steal()
  :: joined[me] && mine[me] != NONE -> end_request()
  :: joined[me] -> bury()
  fi;
  if
  :: joined[me] -> take_mail()
  :: else
  fi;
  look();
  torn = false
}

inline die(member)
{
  alive[member] = false;
  joined[member] = false;
  mine[member] = NONE;
  belief[member] = PENDING;
  for (k : 0 .. CELLS - 1) {
    if
    :: owner[k] == member -> own[k] = false
    :: else
    fi
  }
  k = 0
}

active proctype tables()
{
  byte turns;
  d_step { /* as after some use: the order of cells is not that of tickets */
    free.at[0] = 1;
    free.at[1] = 2;
    free.at[2] = 0;
    free.count = 3
  };
end:
  do
  :: turns < TURNS ->
    turns++;
    if
    :: alive[0] -> me = 0
    :: alive[1] -> me = 1
    :: alive[2] -> me = 2
    fi;
    { turn() } unless {
      d_step { killed -> killed = false; stealing = false; die(me); i = 0; n = 0; c = 0 }
    }
  :: d_step { turns < TURNS && deaths < DEATHS && alive[0] -> deaths++; die(0) }
  :: d_step { turns < TURNS && deaths < DEATHS && alive[1] -> deaths++; die(1) }
  :: d_step { turns < TURNS && deaths < DEATHS && alive[2] -> deaths++; die(2) }
  :: turns < TURNS && births < BIRTHS && !alive[0] -> births++; alive[0] = true
  :: turns < TURNS && births < BIRTHS && !alive[1] -> births++; alive[1] = true
  :: turns < TURNS && births < BIRTHS && !alive[2] -> births++; alive[2] = true
  od
}
