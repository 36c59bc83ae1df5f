/* The scheduler of the plan interpreter: see libinterp.h. */
#include "libinterp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp_machine.h"

static bool may_enter(machine_t *m, int rank)
{
    world_t *w = &m->w;
    int call = m->next_call[rank], running = 0, old = call - (int)w->job->geom.ring_depth;

    if (call == w->job->ncalls) {
        return false;
    }
    for (int c = 0; c < call; c++) {
        const part_t *p = world_part(w, c, rank);
        running += !p->complete;
        if (!p->complete && p->plan->streams && world_part(w, call, rank)->plan->streams) {
            return false;
        }
    }
    for (int r = 0; old >= 0 && r < w->n; r++) {
        if (!world_part(w, old, r)->complete) {
            return false;
        }
    }
    return running < w->job->outstanding;
}

static void enter(machine_t *m, int rank)
{
    world_t *w = &m->w;
    int call = m->next_call[rank]++, old = call - (int)w->job->geom.ring_depth;
    part_t *part = world_part(w, call, rank);
    uint32_t *clock = world_clock(w);

    for (int c = 0; c < call; c++) {
        if (world_part(w, c, rank)->complete) {
            world_join(w, clock, world_part(w, c, rank)->clock);
        }
    }
    for (int r = 0; old >= 0 && r < w->n; r++) {
        world_join(w, clock, world_part(w, old, r)->clock);
    }
    part->entered = true;
    part->live = part->plan->nprogs;
    m->all = realloc(m->all, (m->nall + part->live) * sizeof(*m->all));
    if (m->nqueues + part->live > m->cap) {
        m->cap = 2 * (m->nqueues + part->live);
        m->queues = realloc(m->queues, m->cap * sizeof(*m->queues));
    }
    for (uint32_t i = 0; i < part->plan->nprogs; i++) {
        queue_t *q = calloc(1, sizeof(*q));
        uint32_t at;
        q->who = (actor_t){.call = call, .rank = rank, .prog = (int)i, .comp = world_comp(w, call, rank, (int)i)};
        q->who.clock = world_clock(w);
        memcpy(q->who.clock, clock, w->ncomp * sizeof(uint32_t));
        q->prog = &part->plan->progs[i];
        q->seen = calloc((size_t)w->n, sizeof(uint32_t));
        q->staged = world_only_staged(w, call, rank, q->prog);
        q->trips = world_trips(w, call, rank, q->prog, q->staged);
        if (q->prog->loop_first == 0 && q->prog->nops && q->trips == 0) {
            q->who.pc = q->prog->loop_last + 1;
        }
        if (q->prog->loop_only && q->trips == 0) {
            q->who.pc = q->prog->nops;
        }
        q->starved = m->mode == MODE_STARVE && rank == m->victim;
        m->all[m->nall++] = q;
        at = q->starved ? m->nqueues : world_random(w, m->nqueues + 1);
        memmove(&m->queues[at + 1], &m->queues[at], (m->nqueues - at) * sizeof(*m->queues));
        m->queues[at] = q;
        m->nqueues++;
    }
    free(clock);
}

static step_t run_queue(machine_t *m, uint32_t at)
{
    queue_t *q = m->queues[at];
    step_t step = queue_step(m, q);

    if (step == STEP_RAN && q->ended) {
        memmove(&m->queues[at], &m->queues[at + 1], (m->nqueues - at - 1) * sizeof(*m->queues));
        m->nqueues--;
    }
    return step;
}

static void shuffle(machine_t *m)
{
    uint32_t a = world_random(&m->w, m->nqueues), b = world_random(&m->w, m->nqueues);

    if (m->nqueues && !m->queues[a]->starved && !m->queues[b]->starved) {
        queue_t *t = m->queues[a];
        m->queues[a] = m->queues[b];
        m->queues[b] = t;
    }
}

static bool try_enter(machine_t *m)
{
    int first = (int)world_random(&m->w, (uint32_t)m->w.n);

    for (int i = 0; i < m->w.n; i++) {
        int rank = (first + i) % m->w.n;
        if (may_enter(m, rank)) {
            enter(m, rank);
            return true;
        }
    }
    return false;
}

/* One step of any queue of any rank. */
static step_t machine_step(machine_t *m)
{
    world_t *w = &m->w;
    uint32_t start = m->mode == MODE_UNIFORM ? world_random(w, m->nqueues) : 0, count = m->nqueues;
    bool late = false;
    step_t step;

    if (world_random(w, 4) == 0 && try_enter(m)) {
        return STEP_RAN;
    }
    if (m->mode != MODE_UNIFORM && world_random(w, 16) == 0) {
        shuffle(m);
    }
    for (uint32_t i = 0; i < count; i++) {
        step = run_queue(m, (start + i) % count);
        if (step == STEP_RAN || step == STEP_FAILED) {
            return step;
        }
        late |= step == STEP_LATE;
    }
    return try_enter(m) ? STEP_RAN : late ? STEP_LATE : STEP_BLOCKED;
}

static void report_deadlock(machine_t *m)
{
    char text[1600] = "", op[200];
    size_t at = 0;

    for (uint32_t i = 0; i < m->nqueues && at < sizeof(text) - 300; i++) {
        const queue_t *q = m->queues[i];
        interp_print_op(&q->prog->ops[q->who.pc], op, sizeof(op));
        at += (size_t)snprintf(text + at, sizeof(text) - at, "\n  call %d rank %d queue %d op %u trip %" PRIu64 ": %s",
                               q->who.call, q->who.rank, q->who.prog, q->who.pc, q->who.trip, op);
    }
    for (int r = 0; r < m->w.n && at < sizeof(text) - 300; r++) {
        if (m->next_call[r] < m->w.job->ncalls) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "\n  rank %d has not entered call %d", r,
                                   m->next_call[r]);
        }
    }
    world_fail(&m->w, INTERP_DEADLOCK, "nothing can run; waiting:%s\n", text);
}

static bool machine_done(const machine_t *m)
{
    for (int r = 0; r < m->w.n; r++) {
        if (m->next_call[r] < m->w.job->ncalls) {
            return false;
        }
    }
    return m->nqueues == 0;
}

static void machine_run(machine_t *m)
{
    m->mode = (int)world_random(&m->w, MODE_COUNT);
    m->victim = (int)world_random(&m->w, (uint32_t)m->w.n);
    while (!machine_done(m)) {
        step_t step = machine_step(m);
        m->w.report->steps++;
        if (step == STEP_FAILED) {
            return;
        }
        if (step == STEP_BLOCKED) {
            report_deadlock(m);
            return;
        }
    }
    world_final_check(&m->w);
}

bool interp_run(const interp_job_t *job, interp_report_t *report)
{
    machine_t m = {0};

    if (world_open(&m.w, job, report)) {
        m.next_call = calloc((size_t)job->nranks, sizeof(int));
        machine_run(&m);
    }
    for (uint32_t i = 0; i < m.nall; i++) {
        free(m.all[i]->who.clock);
        free(m.all[i]->seen);
        free(m.all[i]);
    }
    free(m.all);
    free(m.queues);
    free(m.next_call);
    world_close(&m.w);
    return report->error == INTERP_OK;
}
