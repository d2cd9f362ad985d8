/* The lease of a cluster: a server, a lock, two clients; calls that are lost, late or doubled; a
 * fail-over that forgets, and an older server that returns.
 *
 * The parts of the protocol that the model stands for (docs/ADAPTERS.md has the rules):
 *   pass            a tick of time, at the server and at the clients, whose clocks may be slow
 *   RENEW           a renewal, or the call that opens a session
 *   REQUEST         a step that requests the lock if it is available, once in a session
 *   late            a copy of a request that arrives long after its client has moved on
 *   rest, lease     what is left of a session at the server, and of its lease at the client
 *   life, token     the epoch of the server, and the token of its last grant
 *
 * Properties: never two hold the lock; each grant has a greater token than all before; a client
 * whose request was answered knows whether it holds the lock. R2 to R4 concern several names and
 * progress; rules.test.js tests them.
 *
 * Each WITHOUT_ removes a rule; test/model/spin.sh checks that Spin then finds an error. */

#define TTL         3       /* ticks */
#define SESSIONS(c) (1 + c) /* client 0 holds the lock, and client 1 returns for it */
#define NOBODY      2
#define FREE        (holder == NOBODY)

#ifdef WITHOUT_MARGIN
#define LEASE TTL
#else
#define LEASE (TTL - 1) /* a client's clock misses at most one of TTL ticks */
#endif

mtype = { NONE, RENEW, REQUEST };

typedef Call {
  mtype kind = NONE;
  byte session;
  bool opens;
  byte life    /* the last one that the client has seen; it stands for the token, too */
}

typedef Reply {
  bool is_there;
  bool is_known; /* the session */
  bool has;      /* whether the client has the lock */
  byte life
}

/* The server. */
byte life = 1, lives = 1, token, quarantine, holder = NOBODY;
byte rest[2], session[2];
bool recorded[2], answer[2]; /* whether the session made its step, and whether it was granted */
byte token_then; /* the last token of the server before the fail-over */
bool has_failed_over, has_returned;

/* The network. */
Call sent; /* by a client just now */
Call late; /* of client 0 */
Reply reply[2];

/* The clients. */
mtype awaits[2] = NONE;         /* the call without an answer */
bool asked[2], is_unanswered[2]; /* the step was made, and has no answer */
byte own_session[2], opened[2];
byte seen_life[2];
bool has[2]; /* the client considers the lock its own */
byte lease[2], age[2], on_time[2];

byte greatest; /* token of all grants; not part of the protocol */

#define HOLDS(c) (has[c] && lease[c] > 0)

inline begin_life()
{
  lives++;
  life = lives;
  holder = NOBODY;
#ifndef WITHOUT_QUARANTINE
  quarantine = TTL;
#endif
}

inline forget(c)
{
  rest[c] = 0; session[c] = 0; recorded[c] = false; answer[c] = false
}

inline listen(told)
{
#ifdef WITHOUT_LISTENING
  skip
#else
  if
  :: told.life > life ->
    begin_life();
    forget(0);
    forget(1);
#ifndef WITHOUT_LEAP
    token = greatest;
#endif
  :: else
  fi
#endif
}

inline do_step(c)
{
  if
  :: FREE && quarantine == 0 ->
    token++;
    assert(token > greatest);
    greatest = token;
    holder = c;
    answer[c] = true
  :: else -> answer[c] = false
  fi;
  recorded[c] = true
}

/* The server executes a call, whose reply arrives only if the client still awaits it. */
inline execute(c, a_call, is_awaited)
{
  listen(a_call);
  if
  :: a_call.opens ->
    if
    :: a_call.session > session[c] ->
      if
      :: holder == c -> holder = NOBODY
      :: else
      fi;
      forget(c);
      session[c] = a_call.session;
      rest[c] = TTL
    :: else
    fi
  :: !a_call.opens && a_call.session == session[c] && rest[c] > 0 ->
    if
    :: a_call.kind == RENEW -> rest[c] = TTL
#ifdef WITHOUT_RECORDS
    :: a_call.kind == REQUEST -> do_step(c)
#else
    :: a_call.kind == REQUEST && !recorded[c] -> do_step(c)
    :: a_call.kind == REQUEST && recorded[c]
#endif
    fi
  :: else
  fi;
  if
  :: is_awaited ->
    reply[c].is_there = true;
    reply[c].is_known = (a_call.session == session[c] && rest[c] > 0);
    if
    :: a_call.kind == RENEW -> reply[c].has = (holder == c)
    :: else -> reply[c].has = answer[c]
    fi;
    reply[c].life = life
  :: else
  fi
}

inline forget_call(one)
{
  one.kind = NONE; one.session = 0; one.opens = false; one.life = 0
}

inline drop_reply(c)
{
  reply[c].is_there = false; reply[c].is_known = false; reply[c].has = false; reply[c].life = 0;
  awaits[c] = NONE; age[c] = 0
}

/* The server executes a call at once, and its reply arrives later; or the call is lost or late. */
inline send(c, what, is_first)
{
  sent.kind = what;
  sent.session = own_session[c];
  sent.opens = is_first;
  sent.life = seen_life[c];
  awaits[c] = what;
  age[c] = 0;
  if
  :: c == 0 && what != RENEW && late.kind == NONE ->
    late.kind = sent.kind; late.session = sent.session; late.life = sent.life
  :: true
  fi;
  if
  :: execute(c, sent, true)
  :: true
  fi;
  forget_call(sent)
}

/* The session's locks are lost, and its step is not repeated. */
inline lose_session(c)
{
  own_session[c] = 0; has[c] = false; lease[c] = 0; age[c] = 0;
  asked[c] = false; is_unanswered[c] = false
}

inline extend(c)
{
#ifdef WITHOUT_SENDING_TIME
  lease[c] = LEASE;
#else
  lease[c] = (age[c] < LEASE -> LEASE - age[c] : 0);
#endif
}

inline receive(c)
{
  seen_life[c] = reply[c].life;
  if
  :: !reply[c].is_known -> lose_session(c)
  :: reply[c].is_known && awaits[c] == RENEW ->
    extend(c);
#ifndef WITHOUT_COMPARING
    if
    :: !reply[c].has && !is_unanswered[c] -> has[c] = false
    :: else
    fi;
#endif
  :: reply[c].is_known && awaits[c] != RENEW ->
    has[c] = reply[c].has;
    is_unanswered[c] = false;
    assert(has[c] || holder != c || session[c] != own_session[c])
  fi;
  drop_reply(c);
  assert(!(HOLDS(0) && HOLDS(1)))
}

inline pass_at_client(c)
{
  if
  :: lease[c] > 0 -> lease[c]--
  :: else
  fi;
  if
  :: awaits[c] == RENEW && age[c] < LEASE -> age[c]++
  :: else
  fi;
  if
  :: c == 0 && on_time[c] < TTL -> on_time[c]++
  :: else
  fi
}

#ifdef WITHOUT_CLOCK
#define MAY_BE_SLOW(c) true /* it stops while the machine sleeps */
#else
#define MAY_BE_SLOW(c) (c == 0 && on_time[c] == TTL)
#endif

inline pass(c)
{
  if
  :: pass_at_client(c)
  :: MAY_BE_SLOW(c) -> on_time[c] = 0
  fi;
  if
  :: rest[c] > 1 -> rest[c]--
  :: rest[c] == 1 ->
    forget(c);
    if
    :: holder == c -> holder = NOBODY
    :: else
    fi
  :: rest[c] == 0
  fi
}

#define OPEN(c)  (own_session[c] > 0 && lease[c] > 0)
#define IDLE(c)  (awaits[c] == NONE)

proctype client(byte c)
{
  do
  /* A call. */
  :: atomic { IDLE(c) && own_session[c] == 0 && opened[c] < SESSIONS(c) ->
       opened[c]++;
       own_session[c] = opened[c];
       send(c, RENEW, true) }
  :: atomic { IDLE(c) && OPEN(c) -> send(c, RENEW, false) }
  :: atomic { IDLE(c) && OPEN(c) && is_unanswered[c] -> send(c, REQUEST, false) }
  :: atomic { IDLE(c) && OPEN(c) && !asked[c] ->
       asked[c] = true;
       is_unanswered[c] = true;
       send(c, REQUEST, false) }
  /* Its answer. */
  :: atomic { reply[c].is_there && (OPEN(c) || !has[c] && !is_unanswered[c]) -> receive(c) }
  /* The connection is given up. */
  :: atomic { !IDLE(c) -> drop_reply(c) }
  /* The lease has ended. */
  :: atomic { IDLE(c) && own_session[c] > 0 && lease[c] == 0 -> lose_session(c) }
  od
}

proctype server()
{
  do
  :: atomic { late.kind != NONE -> execute(0, late, false); forget_call(late) }
  /* Time passes. */
  :: atomic {
       pass(0);
       pass(1);
       if
       :: quarantine > 0 -> quarantine--
       :: else
       fi }
  /* A standby is promoted that lacks the latest changes; it may have the sessions. */
  :: atomic { !has_failed_over ->
       has_failed_over = true;
       token_then = token;
       forget_call(late);
       if
       :: !FREE -> recorded[holder] = false; answer[holder] = false
       :: else
       fi;
       begin_life();
       if
       :: forget(0); forget(1)
       :: true
       fi;
#ifdef WITHOUT_LEAP
       token = (token > 0 -> token - 1 : 0)
#endif
     }
  /* The server before returns, and knows nothing of that. If no client that saw the newer server is
   * there, nobody can prevent that locks are granted twice (docs/CLUSTER.md). */
  :: atomic { has_failed_over && !has_returned && seen_life[0] == life && seen_life[1] == life ->
       has_returned = true;
       forget_call(late);
       life = 1;
       token = token_then;
       holder = NOBODY;
       quarantine = 0;
       forget(0);
       forget(1) }
  od
}

init
{
  atomic {
    run server();
    run client(0);
    run client(1)
  }
}
