/* The mutex of a segment: entering, death inside at any instruction, and the takeover.
 *
 * The parts of src/host that the model stands for:
 *   word, gen           the fields of these names in segment.h
 *   owner_of_byte       the byte locks of the members (locks.c); the kernel drops them
 *   TAKE A NUMBER       take_number and, from join, the generation (membership.c)
 *   WAIT FOR THE WORD   try_word, is_dead, wait_for_word (section.c)
 *   BEGIN               wlh_enter: begin, wlh_cells_rebuild, leave_word(dead)
 *   LEAVE               wlh_leave_tables: leave_word(0)
 *   CLOSE               wlh_member_close of a process that is outside
 *   torn                a half-done critical section; torn_test.c tests the details
 * wlh_try_enter is WAIT FOR THE WORD without the takeover. The model has one thread for each
 * process, because `mu` lets in one at a time. The code looks, sleeps and looks again; here a
 * process waits until there is something new. If that never comes, Spin reports an invalid end
 * state.
 *
 * Spin shows all stores to all processes in one order. The model is still valid, because
 * - `word` is entered with acquire and left with release, and each of its changes except the
 *   owner's own store is a compare-and-swap;
 * - a process that has proof of an owner's death sees the owner's stores: its end and the test of
 *   its byte take the same lock of the kernel. A port whose proof does not order memory (EVENTS,
 *   handles) needs a barrier there;
 * - only the owner of a member's byte reads and writes `gen`, and the kernel orders these owners,
 *   too.
 *
 * Properties: never two are inside; no process inside finds a half-done section that was not
 * repaired; none waits forever, unless for a living process that is inside.
 *
 * Each WITHOUT_ removes a rule; test/model/spin.sh checks that Spin then finds an error. */

#define PROCESSES 3 /* they come at any time and are all alike */
#define NUMBERS   2 /* of members, so that processes reuse them */
#ifndef TURNS
#define TURNS     2 /* of each process */
#endif
#define NOBODY    255

#define WORD(generation, number) ((generation) * 4 + (number) + 1)
#define NUMBER_OF(word)          (((word) - 1) % 4)

byte word;                       /* 0: free */
byte gen[NUMBERS];
byte owner_of_byte[NUMBERS] = NOBODY;
bool torn;
bool killed[PROCESSES];          /* it executes nothing more */
byte inside;                     /* how many processes are inside */

/* SIGKILL, at any time. */
active proctype killer()
{
  byte i;
  do
  :: i < PROCESSES -> killed[i] = true; i++
  :: i < PROCESSES -> i++
  :: break
  od
}

#ifdef WITHOUT_PROOF_OF_DEATH
#define IS_DEAD(owner) true
#elif defined(WITHOUT_OWN_NUMBER)
#define IS_DEAD(owner) (owner_of_byte[NUMBER_OF(owner)] == NOBODY)
#else
#define IS_DEAD(owner) (NUMBER_OF(owner) == m || owner_of_byte[NUMBER_OF(owner)] == NOBODY)
#endif

/* Clears what is no longer read, so that Spin does not distinguish states by it. */
#define FORGET m = NOBODY; me = 0; owner = 0; dead = 0; turns = 0

proctype process(byte i)
{
  byte m = NOBODY, me, owner, dead, turns;
  bool in;
  {
    /* TAKE A NUMBER */
#ifdef WITHOUT_GENERATION_BY_WHO_HAS_THE_BYTE
    byte before[NUMBERS];
    before[0] = gen[0];
    before[1] = gen[1];
#define GENERATION before[m]
#else
#define GENERATION gen[m]
#endif
    if
    :: atomic { owner_of_byte[0] == NOBODY -> m = 0; owner_of_byte[0] = i }
    :: atomic { owner_of_byte[1] == NOBODY -> m = 1; owner_of_byte[1] = i }
    :: owner_of_byte[0] != NOBODY && owner_of_byte[1] != NOBODY -> goto over
    fi;
#ifdef WITHOUT_GENERATION
    me = WORD(1, m);
#else
    me = WORD(GENERATION + 1, m);
#endif
    gen[m] = me / 4;

    do
    :: turns == TURNS -> break
    :: turns < TURNS ->
      turns++;

      /* WAIT FOR THE WORD */
      dead = 0;
      do
      :: atomic { word == 0 -> word = me; in = true; inside++ }; break
      :: word != 0 ->
        owner = word;
        if
        :: owner == 0
        :: owner != 0 ->
          if
          :: IS_DEAD(owner) ->
            atomic {
              if
#ifdef WITHOUT_SWAP
              :: true -> word = me; dead = owner; in = true; inside++; break
#else
              :: word == owner -> word = me; dead = owner; in = true; inside++; break
              :: else
#endif
              fi
            }
          :: word != owner /* look again */
          fi
        fi
      od;
      owner = 0;
      assert(inside == 1);

      /* BEGIN */
      if
      :: true /* the tables can be used */
      :: true -> /* they are lost to us, for instance because the file was truncated */
        atomic {
#ifdef WITHOUT_PUTTING_BACK
          word = 0;
#else
          word = dead;
#endif
          in = false;
          inside--
        };
        break
      fi;
#ifndef WITHOUT_REBUILD
      if
      :: dead != 0 -> torn = true; torn = false
      :: else
      fi;
#endif
      dead = 0;

      /* a step */
      assert(!torn);
      torn = true;
      assert(inside == 1);
      torn = false;

      /* LEAVE */
      atomic { word = 0; in = false; inside-- }
    od;

over: /* CLOSE */
    atomic {
      if
      :: m != NOBODY -> owner_of_byte[m] = NOBODY
      :: else
      fi;
      FORGET
    }
  } unless {
    atomic {
      killed[i] ->
#ifdef WITHOUT_PROOF_OF_THE_WHOLE_PROCESS
      /* The proof ends with one thread; another thread of the process may end a little later. */
      if
      :: m != NOBODY -> owner_of_byte[m] = NOBODY
      :: else
      fi;
    }
    atomic {
#endif
      inside = inside - in;
      if
      :: m != NOBODY && owner_of_byte[m] == i -> owner_of_byte[m] = NOBODY
      :: else
      fi;
      FORGET
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
