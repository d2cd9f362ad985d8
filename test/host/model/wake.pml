/* Wake-ups and news of death: no process sleeps that has something to receive.
 *
 * One name, exclusive locks; each of two processes makes one request, which may steal. Critical
 * sections are of one piece here (torn_test.c has their pieces), but their process can die between any
 * two statements of what follows. What stands for what in src/host:
 *   bell, owed           wake_up and due (segment.h)
 *   request[]            the cell of a member's request
 *   byte_of, bound       a member's byte lock, and the life whose sockets its paths lead to; the
 *                        kernel drops both, the sockets first
 *   unread               whether wake-ups are in a member's datagram socket
 *   watched, look        wlh_watch.descriptor (as the life that it leads to), wlh_watch.check_at
 *   alarmed              the helper's alarm (wlh_wake_helper)
 *   ENTER, TAKE OVER     wlh_enter (section.c), wlh_cells_rebuild
 *   LEAVE                wlh_leave_tables (section.c), in its order: wlh_mailbox_drain,
 *                        wlh_wake_up_acknowledge, wlh_wake_up_mark, leave_word, wlh_wake_up_send,
 *                        wlh_wake_helper
 *   RING, PAY            wlh_wake_up_mark, wlh_wake_up_send (wake_up.c)
 *   JOIN                 wlh_cells_join (members.c)
 *   ASK, RELEASE         a call of an event loop: wlh_try_enter to wlh_leave
 *   SLEEP                wlh_port_wait in serve, take_items (helper.c)
 *   LOOK, WORK, WATCH    look, work with find_members, watch_members (helper.c)
 * The helper and the event loops of a process take turns (`mu`), so they are one process here. Not
 * here: a wake-up that cannot be sent now, which a living helper tries again; sockets whose paths
 * somebody deleted; timers.
 *
 * Order of memory: `owed` and requests are touched inside only, whose order is that of `word`. `bell`
 * is also changed outside, by compare-and-swap of all processors' order; what it tells of was written
 * before inside, and who answers it enters. A wake-up and a hang-up go through the kernel.
 *
 * Property: in no end state a process waits for a lock that no process has or that is its own, or was
 * robbed and does not know it, unless the one that owes it the wake-up was stopped and none came by
 * since.
 *
 * run.sh visits all states, and takes away the two rules (WITHOUT_) that two processes need. */

#define NUMBERS   3
#define PROCESSES 2 /* each with a number that is free when it comes */
#define DEATHS    2
#define NOBODY    255

#define BIT(i)      (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

mtype = { NONE, PENDING, NEWS_HELD, HELD, NEWS_BROKEN } /* requests */
mtype = { QUIET, OWED, SENT }                           /* bells */

/* The segment. */
byte word = NOBODY;       /* the life that is inside */
byte members, joins;      /* `state`: a bit for each that is in; how many ever joined */
mtype request[NUMBERS] = NONE;
mtype bell[NUMBERS] = QUIET;
byte count[NUMBERS];
byte owed;

/* The kernel. */
byte byte_of[NUMBERS] = NOBODY;
byte bound[NUMBERS] = NOBODY;
bool unread[NUMBERS];
byte number_of[PROCESSES];
bool killed[PROCESSES];
bool silent[PROCESSES];   /* its sockets are closed: who watched it sees a hang-up */
byte deaths, arrived;    /* processes come in the order of `i`, as they are all alike */

/* What Spin knows, and the code does not: a bit for each number of a process that was stopped when it
 * had left the mutex and may owe wake-ups; and whether none left it and paid since. */
byte stopped;
bool excused;

#define IS_HELD(n)    (request[n] == HELD || request[n] == NEWS_HELD)
#define SOMEBODY_HAS  (IS_HELD(0) || IS_HELD(1) || IS_HELD(2))
#define SOMEBODY_WAITS \
  (request[0] == PENDING || request[1] == PENDING || request[2] == PENDING)
#define ALIVE(n)      (byte_of[n] != NOBODY)
#define HUNG_UP(n)    (watched[n] != NOBODY && silent[watched[n]])
#define CAN_WATCH(n)  (watching && watched[n] == NOBODY && bound[n] != NOBODY)
#define LOOKS_AT(n)   (HAS(look, n) && (!ALIVE(n) || CAN_WATCH(n)))
#define IS_DEAD(life) (number_of[life] == m || !ALIVE(number_of[life]))
#define IS_STOPPED(n) (IS_HELD(n) && HAS(stopped, n))

/* Whether it is right that a process has nothing to do. A robbed one need not know it while no process
 * has the lock instead: then the thief died before its user heard of anything, or it, or a later one,
 * was stopped before that. */
#define HAS_IT(n)     (IS_HELD(n) && ALIVE(n) && !HAS(stopped, n))
#define IS_FINE                                                                     \
  (request[m] == NONE || excused ||                                                 \
   (request[m] == PENDING && (IS_STOPPED(0) || IS_STOPPED(1) || IS_STOPPED(2))) ||  \
   (request[m] == NEWS_BROKEN && !HAS_IT(0) && !HAS_IT(1) && !HAS_IT(2)))

active proctype killer()
{
  do
  :: deaths < DEATHS ->
    if
    :: atomic { arrived > 0 && !killed[0] -> killed[0] = true; deaths++ }
    :: atomic { arrived > 1 && !killed[1] -> killed[1] = true; deaths++ }
    fi
  :: break
  od
}

/* Lets in who waits, if nobody has the lock. */
inline settle()
{
  if
  :: !SOMEBODY_HAS ->
    if
    :: request[0] == PENDING -> request[0] = NEWS_HELD; to_notify = to_notify | BIT(0)
    :: request[1] == PENDING -> request[1] = NEWS_HELD; to_notify = to_notify | BIT(1)
    :: request[2] == PENDING -> request[2] = NEWS_HELD; to_notify = to_notify | BIT(2)
    :: !SOMEBODY_WAITS
    fi
  :: else
  fi
}

/* wlh_cells_rebuild: drops the dead, mails all news anew. */
inline rebuild()
{
  atomic {
    for (k : 0 .. NUMBERS - 1) {
      if
      :: HAS(members, k) && !ALIVE(k) -> members = members & ~BIT(k)
      :: else
      fi;
      if
      :: !HAS(members, k) -> request[k] = NONE
      :: HAS(members, k) && (request[k] == NEWS_HELD || request[k] == NEWS_BROKEN) ->
        to_notify = to_notify | BIT(k)
      :: else
      fi
    }
    k = 0
  };
  atomic { settle() }
}

inline bury()
{
  if
  :: (HAS(members, 0) && !ALIVE(0)) || (HAS(members, 1) && !ALIVE(1)) ||
     (HAS(members, 2) && !ALIVE(2)) -> rebuild()
  :: else
  fi
}

inline enter()
{
  if
  :: atomic { word == NOBODY -> word = i }
  :: atomic { word != NOBODY && IS_DEAD(word) -> word = i }; /* TAKE OVER */
    rebuild()
  fi
}

#define IS_TO_PAY(n)  (HAS(owes, n) && bell[n] == OWED)
#define IS_TO_RING(n) (HAS(to_notify, n) && (n) != m && bell[n] == QUIET)

/* PAY */
inline pay()
{
  do
  :: atomic {
      do
      :: k < NUMBERS && !IS_TO_PAY(k) -> k++
      :: else -> break
      od;
      if
      :: k == NUMBERS -> k = 0; break
      :: else -> was = count[k]
      fi
    };
    atomic { /* the datagram */
      if
      :: bound[k] != NOBODY -> unread[k] = true
      :: else -> look = look | BIT(k); alarmed = true /* `suspects` */
      fi
    };
    atomic {
      if
      :: bell[k] == OWED && count[k] == was -> bell[k] = SENT
      :: else
      fi;
      was = 0;
      k++
    }
  od
}

inline leave()
{
  atomic { /* takes its mail */
    if
    :: request[m] == NEWS_HELD -> request[m] = HELD
    :: request[m] == NEWS_BROKEN -> request[m] = NONE
    :: else
    fi
  };
  atomic {
    if
    :: bell[m] != QUIET -> bell[m] = QUIET; count[m]++
    :: else
    fi;
    /* a newcomer rings those who wait; who begins to wait later has to look for it */
    wants = request[m] == PENDING && (HAS(to_notify, m) || !watching || seen != joins)
  };
  do /* RING */
  :: atomic {
      do
      :: k < NUMBERS && !IS_TO_RING(k) -> k++
      :: else -> break
      od;
      if
      :: k == NUMBERS -> k = 0; break
      :: else
      fi;
      owed = owed | BIT(k)
    };
    bell[k] = OWED
  od;
  atomic {
    owes = owed;
    for (k : 0 .. NUMBERS - 1) {
      if
      :: bell[k] != OWED || k == m -> owed = owed & ~BIT(k)
      :: else
      fi
    }
    owes = owes & owed;
    comes_by = (stopped != 0);
    to_notify = 0;
    k = 0
  };
  if /* victims do not watch their thief */
  :: stealing -> pay()
  :: else
  fi;
  atomic { word = NOBODY; stealing = false };
  if
  :: true
  :: atomic { owes != 0 && !stopped -> stopped = BIT(m); excused = true }; /* SIGSTOP */
end_stopped:
    false
  fi;
  pay();
  atomic {
    excused = excused && !comes_by;
    comes_by = false;
    alarmed = alarmed || wants;
    owes = 0;
    wants = false
  }
}

proctype process(byte i)
{
  byte m = NOBODY;                /* its number */
  byte watched[NUMBERS] = NOBODY; /* lives */
  byte look, seen, set;           /* `set`: whom find_members found */
  byte to_notify, owes, k, was;
  bool watching, alarmed, wants, stealing, asked, dead, comes_by;
  {
    /* It takes the first number that is free, and binds its sockets. */
    atomic {
      arrived == i -> arrived++;
      if
      :: !ALIVE(0) -> m = 0
      :: ALIVE(0) && !ALIVE(1) -> m = 1
      :: ALIVE(0) && ALIVE(1) -> m = 2
      fi;
      number_of[i] = m;
      byte_of[m] = i
    };
    atomic { bound[m] = i; unread[m] = false };

    /* JOIN */
    enter();
    if
    :: HAS(members, m) -> members = members & ~BIT(m); rebuild()
    :: else -> bury()
    fi;
    atomic {
      members = members | BIT(m);
      joins++;
      for (k : 0 .. NUMBERS - 1) {
        if
        :: request[k] == PENDING -> to_notify = to_notify | BIT(k)
        :: else
        fi
      }
      k = 0
    };
    leave();

    do
    :: !asked -> asked = true /* it never asks */

    :: !asked -> /* ASK */
      asked = true;
      enter();
      if
      :: atomic { !SOMEBODY_HAS && !SOMEBODY_WAITS -> request[m] = HELD }
      :: atomic { SOMEBODY_HAS || SOMEBODY_WAITS -> request[m] = PENDING }
      :: atomic { SOMEBODY_HAS -> /* it steals */
          for (k : 0 .. NUMBERS - 1) {
            if
            :: IS_HELD(k) -> request[k] = NEWS_BROKEN; to_notify = to_notify | BIT(k)
            :: else
            fi
          }
          k = 0;
          stealing = true
        };
        request[m] = HELD
      fi;
      leave()

    :: asked && request[m] == HELD -> /* RELEASE; but who was robbed may never call again */
      enter();
      atomic {
        if
        :: request[m] == HELD -> request[m] = NONE; settle()
        :: else
        fi
      };
      leave()

    :: alarmed || unread[m] || HUNG_UP(0) || HUNG_UP(1) || HUNG_UP(2) ||
       LOOKS_AT(0) || LOOKS_AT(1) || LOOKS_AT(2) -> /* SLEEP, until there is something */
      atomic {
        alarmed = false;
#ifndef WITHOUT_RECEIVING_FIRST
        unread[m] = false;
#endif
        for (k : 0 .. NUMBERS - 1) {
          if
          :: HUNG_UP(k) -> watched[k] = NOBODY; look = look | BIT(k)
          :: else
          fi
        }
        k = 0
      };

      /* LOOK */
      do
      :: atomic { k < NUMBERS ->
          if
          :: HAS(look, k) && !ALIVE(k) -> dead = true; look = look & ~BIT(k)
          :: HAS(look, k) && ALIVE(k) && CAN_WATCH(k) ->
            watched[k] = bound[k];
            look = look & ~BIT(k)
          :: else
          fi;
          k++
        }
      :: k == NUMBERS -> k = 0; break
      od;

      /* WORK */
      enter();
      if
      :: dead -> dead = false; bury()
      :: else
      fi;
      atomic {
        watching = (request[m] == PENDING);
        seen = joins;
        set = (watching -> members & ~BIT(m) : 0)
      };
      leave();

      /* WATCH */
      do
      :: atomic { k < NUMBERS ->
          if
          :: !HAS(set, k) -> look = look & ~BIT(k)
          :: HAS(set, k) && watched[k] == NOBODY && !HAS(look, k) ->
            if
            :: bound[k] != NOBODY -> watched[k] = bound[k]
#ifdef WITHOUT_LOOKING_WHERE_NOBODY_IS
            :: else
#else
            :: else -> look = look | BIT(k)
#endif
            fi
          :: else
          fi;
          k++
        }
      :: k == NUMBERS -> k = 0; break
      od;
      set = 0;
#ifdef WITHOUT_RECEIVING_FIRST
      unread[m] = false
#endif

    :: timeout && IS_FINE -> break
    od
  } unless {
    atomic { /* killed: its sockets close, then its byte is free */
      killed[i] ->
      silent[i] = true;
      if
      :: m != NOBODY && bound[m] == i -> bound[m] = NOBODY; unread[m] = false
      :: else
      fi;
      look = 0; seen = 0; set = 0; to_notify = 0; owes = 0; k = 0; was = 0;
      watching = false; alarmed = false; wants = false; stealing = false; asked = false;
      dead = false; comes_by = false;
      watched[0] = NOBODY; watched[1] = NOBODY; watched[2] = NOBODY
    };
    atomic {
      if
      :: m != NOBODY && byte_of[m] == i -> byte_of[m] = NOBODY
      :: else
      fi;
      m = NOBODY
    }
  }
}

init
{
  atomic {
    byte i;
    for (i : 0 .. PROCESSES - 1) {
      run process(i)
    }
  }
}
