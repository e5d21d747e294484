/*
 * Half messages (T2) and check-backs (T3): producers, broker, checkers, recovery, and a ledger with
 * fences.
 *
 * Each producer has one half message. Its later transactions have other handles, so the model treats
 * them as other producers. A step has the name of the function that it models, and it prints one line
 * of the sequence that a counterexample shows. Between any two steps, any number of these may happen:
 *
 * - A producer, a checker or the recovery dies or loses its connection.
 * - A request gets lost, arrives although its sender has died, or arrives late. An answer gets lost.
 * - The ledger's database restarts. Open transactions are lost, and so are commits that were not on
 *   disk yet. Others may see a commit before it is on disk, as with InnoDB or an asynchronous commit.
 * - A half message becomes due. There is no clock, so no result may depend on durations.
 *
 * The broker flushes what it stores before it answers. As a consequence, its restarts look like lost
 * requests and lost answers. The mutant PREPARE_ASYNC shows what happens otherwise.
 *
 * Options:
 *   N, K, R      number of producers, checkers and recoveries
 *   HERE         the ledger is in the broker's database (local_begin, checker `ledger`), and fence and
 *                decision are one transaction; otherwise it is in another database (checker `url`)
 *   ADMIN        settle() at any moment with any verdict
 *   BATCH        a caller decides both half messages at once as the ledger says. With ADMIN there are
 *                two, who decide anything, and no producers. Needs N=2 and another database
 *   LIVE         failures eventually end; needed for the LTL formulas CLAIM_decided, CLAIM_delivered
 *   P_ATOMIC, P_EARLY, P_FIRST, P_FINAL    the properties that are asserted
 *   SHOWN        a state that must be reached
 * All other names in #ifdef are mutants: each removes one rule of the protocol.
 */

#ifndef N
#define N 2
#endif
#ifndef K
#define K 2
#endif
#ifndef R
#define R 1
#endif

/* The ledger's row of a handle, and the progress of the transaction that writes it. */
mtype:entry = {
    absent,
    local_begun,        /* a local row whose transaction is open */
    local_orphan,       /* the same, but its client is gone */
    local_ending,       /* COMMIT was sent */
    local_visible,      /* committed, not yet on disk */
    local_durable,
    fence_ending,       /* a fence whose COMMIT was sent */
    fence_orphan,       /* a fence without COMMIT whose client is gone (HERE) */
    fence_visible,
    fence_durable
};
mtype:op = { undecided, commit, rollback };
mtype:outcome = { none, newly, already, opposite, unknown };

/* broker */
bool half[N];                    /* commit_log: prepare() stored it */
mtype:op op[N] = undecided;      /* op_log */
bool seen[N];                    /* consume_queue: append() gave it an offset, so consumers see it */
bool late_commit[N];             /* a commit() or rollback() was sent, and its sender no longer waits */
bool late_rollback[N];
#ifdef PREPARE_ASYNC
bool flushed[N];
#endif

/* ledger */
mtype:entry row[N] = absent;
bool marked[N];

#ifdef BATCH
bool held[N];                    /* an open transaction has inserted the key in op_log: others wait */
#define FREE(h) (!held[h])
#else
#define FREE(h) (true)
#endif

/* used by the properties only */
mtype:op first[N] = undecided;

#ifdef LIVE
bool calm;                       /* from now on there are no failures */
#define TROUBLE (!calm)
#else
#define TROUBLE (true)
#endif

#define IS_LOCAL(h) (row[h] == local_visible || row[h] == local_durable)
#define IS_FENCE(h) (row[h] == fence_visible || row[h] == fence_durable)
#define IS_OPEN(h) (row[h] == local_begun || row[h] == local_orphan || row[h] == local_ending || \
    row[h] == fence_ending || row[h] == fence_orphan)

/* Called after every step that changes a variable that the properties use. */
inline properties(h) {
#ifdef P_ATOMIC
    assert(!(op[h] == commit && row[h] != local_durable));
    assert(!(op[h] == rollback && IS_LOCAL(h)));
#endif
#ifdef P_EARLY
    assert(!(seen[h] && (op[h] != commit || !IS_LOCAL(h))));
#endif
#ifdef P_FIRST
    assert(op[h] == first[h]);
    assert(!(seen[h] && first[h] != commit));
#endif
    skip
}

/* Finality: a verdict is based on a row that is on disk, and such a row never changes. */
inline ruled(h, verdict) {
#ifdef P_FINAL
    assert(row[h] == (verdict == commit -> local_durable : fence_durable));
#endif
    skip
}
inline becomes(h, entry) {
#ifdef P_FINAL
    assert(row[h] != local_durable && row[h] != fence_durable);
#endif
    row[h] = entry
}

/* A caller that decides as the ledger says never gets the opposite outcome, and never `unknown` for a
 * committed half message. */
inline agrees(what, got) {
#ifdef P_ATOMIC
    assert(got != opposite && !(got == unknown && what == commit));
#endif
    skip
}

/* SHOWN=n: fails when the model reaches a state that it must be able to reach. */
#ifdef SHOWN
#define SHOW(n) assert(n != SHOWN)
#else
#define SHOW(n) skip
#endif

/* A synchronous commit also puts all earlier commits on disk. */
inline flush(h) {
    if
    :: row[h] == local_visible -> becomes(h, local_durable)
    :: row[h] == fence_visible -> becomes(h, fence_durable)
    :: else
    fi
}

/* ------------------------------------------------------------------ broker */

/* The primary key of op_log lets the first writer win. Later ones read the first decision. */
inline _decide(h, what, got) {
    if
    :: !half[h] -> got = unknown
    :: half[h] && op[h] == undecided && FREE(h) ->
        op[h] = what;
        got = newly;
        if :: first[h] == undecided -> first[h] = what :: else fi;
#ifdef HERE
        flush(h)    /* one database: the flush of the decision includes the earlier local commit */
#endif
    :: half[h] && op[h] != undecided ->
        if :: op[h] == what -> got = already :: else -> got = opposite fi;
#ifdef LAST_WRITER
        op[h] = what
#endif
    fi;
    if :: op[h] != undecided -> late_commit[h] = false; late_rollback[h] = false :: else fi
}

/* A decision whose sender does not get the answer: executed now, later or never. */
inline send_and_forget(h, what) {
    if
    :: half[h] && op[h] == undecided && what == commit -> late_commit[h] = true
    :: half[h] && op[h] == undecided && what == rollback -> late_rollback[h] = true
    :: else
    fi
}

proctype broker(byte h) {
    mtype:outcome got;
end:
    do
    :: atomic { late_commit[h] && FREE(h) -> late_commit[h] = false; _decide(h, commit, got); got = none;
        printf("network ->> broker: commit(h%d) arrives late\n", h + 1); properties(h) }
    :: atomic { late_rollback[h] && FREE(h) -> late_rollback[h] = false; _decide(h, rollback, got); got = none;
        printf("network ->> broker: rollback(h%d) arrives late\n", h + 1); properties(h) }
    :: atomic { op[h] == commit && !seen[h] -> seen[h] = true;
        printf("broker ->> consumer: append(): message h%d is visible\n", h + 1); properties(h) }
#ifdef PREPARE_ASYNC
    :: atomic { half[h] && !flushed[h] -> flushed[h] = true }
    :: atomic { half[h] && !flushed[h] && op[h] == undecided -> half[h] = false; flushed[h] = true;
        printf("broker ->> broker: restarts, half h%d was not on disk and is gone\n", h + 1) }
#endif
    od
}

/* settle(): an administrator decides without any check, so only I3 (first decision stands) holds. */
#ifdef ADMIN
proctype admin(byte h) {
    mtype:op what;
    mtype:outcome got;
end:
    atomic {
        if :: half[h] && FREE(h) -> what = commit :: half[h] && FREE(h) -> what = rollback fi;
        _decide(h, what, got);
        printf("admin ->> broker: settle(h%d, %e) -> %e\n", h + 1, what, got); properties(h)
    }
}
#endif

/* commit_batch() or rollback_batch() over the two half messages of one record batch, in one transaction.
 * _decide_run() decides both or none. If another decision was faster, it gives its keys back, and the
 * general way decides what is left. */
#ifdef BATCH
#define DECIDED(x) (op[x] != undecided)

inline give_back() {
    if :: mine[0] -> held[0] = false :: else fi;
    if :: mine[1] -> held[1] = false :: else fi;
    mine[0] = false; mine[1] = false; h = 0
}

/* The end of the transaction for one half message, and the outcome that the caller gets for it. */
inline store(x) {
    if
    :: mine[x] -> held[x] = false; op[x] = what; late_commit[x] = false; late_rollback[x] = false;
        if :: first[x] == undecided -> first[x] = what :: else fi
#ifdef BATCH_KEEPS
    :: !mine[x] && all -> assert(first[x] == what)    /* `committed` is said of what others decided */
    :: !mine[x] && !all -> agrees(what, (op[x] == what -> already : opposite))
#else
    :: else -> agrees(what, (op[x] == what -> already : opposite))
#endif
    fi
}

proctype batch(byte b) {
    byte h;
    mtype:op what;
    bool mine[2];
    bool all = true;

end:
    atomic {
        if
#ifdef ADMIN
        :: half[0] && half[1] -> what = commit
        :: half[0] && half[1] -> what = rollback
#else
        :: half[0] && half[1] && IS_LOCAL(0) && IS_LOCAL(1) -> what = commit; flush(0); flush(1)
        :: half[0] && half[1] && IS_FENCE(0) && IS_FENCE(1) -> what = rollback; flush(0); flush(1)
#endif
        fi;
        printf("batch %d ->> broker: %e_batch(h1, h2)\n", b + 1, what)
    }
    atomic {
        if
        :: !DECIDED(0) && !DECIDED(1) -> printf("broker ->> batch %d: _decide_run() sees no decision\n", b + 1)
        :: DECIDED(0) || DECIDED(1) -> all = false; goto general
        fi
    }
whole:
    atomic {
        if
        :: !DECIDED(h) && FREE(h) -> held[h] = true; mine[h] = true;
            printf("broker ->> batch %d: _decide_run() inserts the key of h%d\n", b + 1, h + 1)
#ifdef BATCH_UPSERT
        :: DECIDED(h) && FREE(h) -> held[h] = true; mine[h] = true;
            printf("broker ->> batch %d: _decide_run() writes over the decision of h%d\n", b + 1, h + 1)
#elif defined(BATCH_KEEPS)
        :: DECIDED(h) ->
            printf("broker ->> batch %d: _decide_run() does not look which keys it inserted\n", b + 1)
#else
        :: DECIDED(h) -> give_back(); all = false;
            printf("broker ->> batch %d: _decide_run() finds a decision, and gives its keys back\n", b + 1);
            goto general
#endif
        :: TROUBLE -> give_back();
            printf("batch %d --x batch %d: dies, and its transaction rolls back\n", b + 1, b + 1); goto over
        fi;
        h++;
        if :: h < 2 -> goto whole :: else -> h = 0; goto finish fi
    }
general:
    atomic {
        if
        :: !DECIDED(h) && FREE(h) -> held[h] = true; mine[h] = true;
            printf("broker ->> batch %d: _decide_batch() inserts the key of h%d\n", b + 1, h + 1)
        :: DECIDED(h) ->
            printf("broker ->> batch %d: _decide_batch() meets the decision of h%d\n", b + 1, h + 1)
        :: TROUBLE -> give_back();
            printf("batch %d --x batch %d: dies, and its transaction rolls back\n", b + 1, b + 1); goto over
        fi;
        h++;
        if :: h < 2 -> goto general :: else -> h = 0 fi
    }
finish:
    atomic {
        if
        :: store(0); store(1);
            printf("broker ->> batch %d: %e_batch(h1, h2) is committed\n", b + 1, what); properties(0); properties(1)
        :: TROUBLE -> give_back();
            printf("batch %d --x batch %d: dies, and its transaction rolls back\n", b + 1, b + 1)
        fi
    }
over:
    skip
}
#endif

/* ------------------------------------------------------------------ ledger */

proctype ledger(byte h) {
end:
    do
    :: atomic { row[h] == local_ending -> becomes(h, local_visible);
        printf("ledger ->> ledger: COMMIT of local transaction h%d is executed\n", h + 1); properties(h) }
    :: atomic { row[h] == local_ending && TROUBLE -> becomes(h, absent);
        printf("ledger ->> ledger: COMMIT of local transaction h%d got lost: it rolls back\n", h + 1) }
    :: atomic { row[h] == local_orphan -> becomes(h, absent);
        printf("ledger ->> ledger: the client of local transaction h%d is gone: it rolls back\n", h + 1) }
#ifdef HERE
    :: atomic { row[h] == fence_orphan -> becomes(h, absent);
        printf("ledger ->> ledger: the client of fence h%d is gone: it rolls back\n", h + 1) }
#else
    :: atomic { row[h] == fence_ending -> becomes(h, fence_visible);
        printf("ledger ->> ledger: COMMIT of fence h%d is executed\n", h + 1) }
#endif
    :: atomic { row[h] == fence_ending && TROUBLE -> becomes(h, absent);
        printf("ledger ->> ledger: COMMIT of fence h%d got lost: it rolls back\n", h + 1) }
    :: atomic { row[h] == local_visible || row[h] == fence_visible -> flush(h);
        printf("ledger ->> ledger: row h%d is on disk\n", h + 1) }
    :: atomic { TROUBLE && row[h] != absent && row[h] != local_durable && row[h] != fence_durable -> becomes(h, absent);
        printf("ledger ->> ledger: restarts, row h%d was not on disk and is gone\n", h + 1); properties(h) }
    od
}

/* ------------------------------------------------------------------ producer: TransactionalProducer.transaction() */

proctype producer(byte h) {
    mtype:outcome got;

prepare_half:    /* step 1 */
    atomic {
        if
        :: half[h] = true; printf("producer %d ->> broker: prepare() -> handle h%d\n", h + 1, h + 1)
        :: TROUBLE -> half[h] = true;
            printf("producer %d ->> broker: prepare(), the answer with handle h%d gets lost\n", h + 1, h + 1);
            goto over
        :: TROUBLE -> printf("producer %d --x producer %d: dies before prepare() arrives\n", h + 1, h + 1); goto over
        fi
    }
#ifdef COMMIT_FIRST
    atomic { _decide(h, commit, got); printf("producer %d ->> broker: commit(h%d) -> %e\n", h + 1, h + 1, got);
        got = none; properties(h) }
#endif

begin_local:    /* step 2 begins; it waits for a fence whose transaction is open */
    atomic {
        if
#ifdef HERE
        :: row[h] == absent && op[h] == undecided -> becomes(h, local_begun);
            printf("producer %d ->> ledger: begin, local_begin(h%d) writes the local row\n", h + 1, h + 1)
        :: row[h] == absent && op[h] != undecided ->
            printf("producer %d ->> ledger: begin, local_begin(h%d): decided already, rolls back\n", h + 1, h + 1);
            goto over
        :: IS_FENCE(h) ->
            printf("producer %d ->> ledger: begin, local_begin(h%d) meets a fence: Fenced\n", h + 1, h + 1);
            SHOW(1); goto rollback_half
#else
        :: row[h] == absent -> becomes(h, local_begun);
            printf("producer %d ->> ledger: begin, Ledger.begin(h%d) writes the local row\n", h + 1, h + 1)
        :: IS_FENCE(h) ->
            printf("producer %d ->> ledger: begin, Ledger.begin(h%d) meets a fence: Fenced\n", h + 1, h + 1);
            SHOW(1); goto rollback_half
#endif
        :: TROUBLE -> printf("producer %d --x producer %d: dies before its local transaction\n", h + 1, h + 1);
            goto over
        fi
    }

commit_local:    /* step 2 ends */
    atomic {
        if
        :: row[h] == local_begun -> becomes(h, local_ending);
            printf("producer %d ->> ledger: business change, COMMIT\n", h + 1)
        :: row[h] == local_begun -> becomes(h, absent);
            printf("producer %d ->> ledger: business fails, ROLLBACK\n", h + 1); goto rollback_half
        :: row[h] != local_begun -> printf("ledger ->> producer %d: connection lost before COMMIT\n", h + 1);
            goto rollback_half
        :: TROUBLE ->
            if :: row[h] == local_begun -> becomes(h, local_orphan) :: else fi;
            printf("producer %d --x producer %d: dies in its local transaction\n", h + 1, h + 1); goto over
        fi
    }
    atomic {
        if
#ifdef LOCAL_ASYNC
        :: IS_LOCAL(h) ->
#else
        :: row[h] == local_durable ->
#endif
            printf("ledger ->> producer %d: local transaction h%d is committed\n", h + 1, h + 1)
        :: row[h] == local_ending -> becomes(h, absent);
            printf("ledger ->> producer %d: COMMIT of h%d refused, rolled back\n", h + 1, h + 1); goto rollback_half
        :: TROUBLE || !(row[h] == local_ending || IS_LOCAL(h)) ->
            printf("ledger --x producer %d: no answer to COMMIT of h%d: OutcomeUnknown\n", h + 1, h + 1);
#ifdef GUESS
            goto rollback_half
#else
            goto over
#endif
        fi
    }

decide:    /* step 3 */
    atomic {
        if
        :: _decide(h, commit, got); printf("producer %d ->> broker: commit(h%d) -> %e\n", h + 1, h + 1, got);
            properties(h); agrees(commit, got)
        :: TROUBLE -> send_and_forget(h, commit);
            printf("producer %d ->> broker: commit(h%d), no answer\n", h + 1, h + 1); goto over
        :: TROUBLE -> printf("producer %d --x producer %d: dies before commit()\n", h + 1, h + 1); goto over
        fi
    }

mark_done:    /* step 4 */
    atomic {
        if
        :: marked[h] = true; printf("producer %d ->> ledger: mark_done(h%d)\n", h + 1, h + 1)
        :: TROUBLE -> printf("producer %d --x producer %d: dies before mark_done()\n", h + 1, h + 1)
        fi;
        goto over
    }

rollback_half:    /* step 3 when the local transaction has certainly rolled back */
    atomic {
        if
        :: _decide(h, rollback, got); printf("producer %d ->> broker: rollback(h%d) -> %e\n", h + 1, h + 1, got);
            properties(h)
        :: TROUBLE -> send_and_forget(h, rollback);
            printf("producer %d ->> broker: rollback(h%d), no answer\n", h + 1, h + 1)
        :: TROUBLE -> printf("producer %d --x producer %d: dies before rollback()\n", h + 1, h + 1)
        fi
    }
over:
    skip
}

/* ------------------------------------------------------------------ recovery: Recovery.run(), step 5 */

/* Resets the variables, because their old values would only multiply equal states. */
#define AGAIN h = 0; verdict = undecided; got = none; goto again

#define OPEN_ROW(x) ((IS_LOCAL(x) || IS_FENCE(x)) && !marked[x])

#ifndef HERE
proctype recovery() {
    byte h;
    mtype:op verdict = undecided;
    mtype:outcome got;
end:
again:
    atomic {    /* look and flush are one step: a restart in between breaks the connection and changes nothing */
        if
        :: OPEN_ROW(0) -> h = 0
#if N > 1
        :: OPEN_ROW(1) -> h = 1
#endif
        fi;
        if :: IS_LOCAL(h) -> verdict = commit :: else -> verdict = rollback fi;
        printf("recovery ->> ledger: open_rows() -> h%d, to %e\n", h + 1, verdict);
#ifndef RECOVER_UNFLUSHED
        flush(h)
#endif
    }
    atomic {
        if
        :: _decide(h, verdict, got);
            printf("recovery ->> broker: %e_batch(h%d) -> %e\n", verdict, h + 1, got);
            properties(h); agrees(verdict, got)
        :: TROUBLE -> send_and_forget(h, verdict);
            printf("recovery ->> broker: %e_batch(h%d), no answer\n", verdict, h + 1); AGAIN
        :: TROUBLE -> printf("recovery --x recovery: dies\n"); AGAIN
        fi
    }
    atomic {
        if
        :: marked[h] = true; printf("recovery ->> ledger: mark_done(h%d)\n", h + 1)
        :: TROUBLE -> printf("recovery --x recovery: dies before mark_done()\n")
        fi;
        AGAIN
    }
}
#endif

/* ------------------------------------------------------------------ checkers: the compensator, T3 */

#define DUE(x) (half[x] && op[x] == undecided)

proctype checker(byte k) {
    byte h;
    mtype:op verdict = undecided;
    mtype:outcome got;
end:
again:
    atomic {    /* two may have the same half message, if the lease of the first has ended */
        if
        :: DUE(0) -> h = 0
#if N > 1
        :: DUE(1) -> h = 1
#endif
        fi;
#ifdef HERE
        printf("checker %d ->> broker: compensate() takes h%d\n", k + 1, h + 1)
#else
        printf("checker %d ->> broker: due_checks() -> h%d\n", k + 1, h + 1)
#endif
    }

#if defined(NO_FENCE)
    atomic {    /* looks without inserting a fence */
        if
        :: row[h] == absent -> verdict = rollback
        :: row[h] == local_durable -> verdict = commit
        :: else -> AGAIN
        fi;
        ruled(h, verdict);
        printf("checker %d ->> ledger: looks for h%d without a fence: %e\n", k + 1, h + 1, verdict);
        goto answer
    }
#elif defined(TIMEOUT)
    atomic {    /* assumes that no producer pauses before it begins: what is not committed by now has failed */
        if
        :: row[h] == local_durable -> verdict = commit
        :: row[h] == local_begun -> verdict = rollback
        :: else -> AGAIN
        fi;
        ruled(h, verdict);
        printf("checker %d ->> ledger: looks for h%d, its time is over: %e\n", k + 1, h + 1, verdict);
        goto answer
    }
#else
    atomic {
        if
        :: row[h] == absent -> becomes(h, fence_ending);
            printf("checker %d ->> ledger: _fence(h%d) inserts the fence\n", k + 1, h + 1)
        :: IS_OPEN(h) ->
            printf("checker %d ->> ledger: _fence(h%d) times out on an open transaction: wait\n", k + 1, h + 1);
            SHOW(2); AGAIN
        :: IS_LOCAL(h) || IS_FENCE(h) ->    /* a new statement reads the row and flushes it */
            if :: IS_LOCAL(h) -> verdict = commit :: else -> verdict = rollback fi;
#if defined(VERDICT_UNFLUSHED)
            skip;
#elif defined(FENCE_UNFLUSHED)
            if :: IS_LOCAL(h) -> flush(h) :: else fi;
#else
            flush(h);
#endif
            ruled(h, verdict);
            printf("checker %d ->> ledger: _fence(h%d) meets a row: %e\n", k + 1, h + 1, verdict);
            goto answer
        :: TROUBLE -> printf("checker %d --x checker %d: dies\n", k + 1, k + 1); AGAIN
        fi
    }
    atomic {
        if
#ifdef HERE
        :: row[h] == fence_ending -> becomes(h, fence_durable); verdict = rollback;    /* with the decision below */
            _decide(h, verdict, got); ruled(h, verdict);
            printf("checker %d ->> broker: _decide(h%d, rollback) -> %e, COMMIT\n", k + 1, h + 1, got);
            properties(h); AGAIN
        :: TROUBLE || row[h] != fence_ending ->
            if :: row[h] == fence_ending -> becomes(h, fence_orphan) :: else fi;
            printf("checker %d --x checker %d: dies, or loses its connection\n", k + 1, k + 1); AGAIN
#else
        :: row[h] == fence_durable -> verdict = rollback; ruled(h, verdict);
            printf("ledger ->> checker %d: fence h%d is in: rollback\n", k + 1, h + 1)
        :: TROUBLE || !(row[h] == fence_ending || IS_FENCE(h)) ->
            printf("ledger --x checker %d: no answer\n", k + 1); AGAIN
#endif
        fi
    }
#endif

answer:
    atomic {
        if
        :: _decide(h, verdict, got);
            printf("checker %d ->> broker: _answer(h%d, %e) -> %e\n", k + 1, h + 1, verdict, got); properties(h)
        :: TROUBLE -> send_and_forget(h, verdict);
            printf("checker %d ->> broker: _answer(h%d, %e), no answer\n", k + 1, h + 1, verdict)
        :: TROUBLE -> printf("checker %d --x checker %d: dies before _answer()\n", k + 1, k + 1)
        fi;
        AGAIN
    }
}

#ifdef LIVE
proctype troubles() { atomic { calm = true; printf("network ->> network: from now on nothing fails\n") } }
#endif

init {
    byte i = 0;
    atomic {
        do
        :: i < N ->
            run broker(i);
#if defined(ADMIN) && defined(BATCH)
            half[i] = true; run batch(i);
#else
            run producer(i); run ledger(i);
#endif
#ifdef ADMIN
            run admin(i);
#endif
            i++
        :: else -> break
        od;
        i = 0;
        do :: i < K -> run checker(i); i++ :: else -> break od;
        i = 0;
#ifndef HERE
        do :: i < R -> run recovery(); i++ :: else -> break od;
        i = 0;
#endif
#if defined(BATCH) && !defined(ADMIN)
        run batch(0);
#endif
#ifdef LIVE
        run troubles()
#endif
    }
}

#ifdef CLAIM_decided
ltl decided { [] (half[0] -> <> (op[0] != undecided)) }
#endif
#ifdef CLAIM_delivered
ltl delivered { [] (row[0] == local_durable -> <> seen[0]) }
#endif
