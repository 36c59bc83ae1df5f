/*
 * One turn of a variant: see schedules.h. In all ways the host returns when everything has been done.
 *
 * One after the other, in a stream: first collective, all products, second collective, in `compute`.
 *
 * Side by side, in streams; events keep the order between them. c: slices
 *
 *     comm      first 0, first 1, ...                              second 0, second 1, ...
 *     compute   own rows, the first half; slice 0, slice 1, ...; own rows, the second half; what is left
 *
 * where slice c waits for the first collective c, and the second collective c for slice c. If there is no first collective, a
 * slice has the own rows, too. If there is no second one, all own rows come first.
 */
#include "test/gpu/schedules/schedules.h"

static struct {
    void *received[SCHED_SLICES], *made[SCHED_SLICES], *all;
} events;

static void must(int code, const char *what)
{
    gpu_must(code != MPI_SUCCESS, what);
}

static void make_events(void)
{
    enum { NO_TIMES = 2 };

    for (int i = 0; i < SCHED_SLICES && !events.all; i++) {
        gpu_must(gpu.event_create(&events.received[i], NO_TIMES) || gpu.event_create(&events.made[i], NO_TIMES),
                 "event");
    }
    gpu_must(!events.all && gpu.event_create(&events.all, NO_TIMES), "event");
}

static void record(void *event, void *stream)
{
    gpu_must(gpu.event_record(event, stream), "event");
}

static void wait_in(void *stream, void *event)
{
    gpu_must(gpu.stream_wait_event(stream, event, 0), "wait for an event");
}

static void whole_in_stream(const sched_work_t *work, sched_variant_t *v)
{
    if (work->has_first) {
        v->side->enqueue(v->side, &v->first[0], sched.compute);
    }
    work->whole(v);
    if (work->has_second) {
        v->side->enqueue(v->side, &v->second[0], sched.compute);
    }
    work->finish(v);
}

static void beside_in_streams(const sched_work_t *work, sched_variant_t *v)
{
    for (int c = 0; c < v->slices && work->has_first; c++) {
        v->side->enqueue(v->side, &v->first[c], sched.comm);
        record(events.received[c], sched.comm);
    }
    work->own(v, true);
    for (int c = 0; c < v->slices; c++) {
        if (work->has_first) {
            wait_in(sched.compute, events.received[c]);
        }
        work->slice(v, c);
        record(events.made[c], sched.compute);
    }
    work->own(v, false);
    for (int c = 0; c < v->slices && work->has_second; c++) {
        wait_in(sched.comm, events.made[c]);
        v->side->enqueue(v->side, &v->second[c], sched.comm);
    }
    record(events.all, sched.comm);
    wait_in(sched.compute, events.all);
    work->finish(v);
}

static void whole_on_host(const sched_work_t *work, sched_variant_t *v)
{
    if (work->has_first) {
        sched_run(&v->first[0]);
    }
    work->whole(v);
    if (work->has_second) {
        sched_synchronize();
        sched_run(&v->second[0]);
    }
    work->finish(v);
}

static void beside_on_host(const sched_work_t *work, sched_variant_t *v)
{
    for (int c = 0; c < v->slices && work->has_first; c++) {
        sched_start(&v->first[c]);
    }
    work->own(v, true);
    for (int c = 0; c < v->slices; c++) {
        if (work->has_first) {
            sched_wait(&v->first[c]);
        }
        work->slice(v, c);
        record(events.made[c], sched.compute);
    }
    work->own(v, false);
    for (int c = 0; c < v->slices && work->has_second; c++) {
        gpu_must(gpu.event_synchronize(events.made[c]), "event");
        sched_start(&v->second[c]);
    }
    for (int c = 0; c < v->slices && work->has_second; c++) {
        sched_wait(&v->second[c]);
    }
    work->finish(v);
}

static void wait_for_partitions(sched_variant_t *v, int slice)
{
    for (int r = 0; r < sched.ranks; r++) {
        for (int arrived = r == sched.rank; !arrived;) {
            must(MPIX_Parrived(v->first[0].request, r * v->slices + slice, &arrived), "a partition has failed");
        }
    }
}

static void in_partitions(const sched_work_t *work, sched_variant_t *v)
{
    if (work->has_first) {
        must(MPI_Start(&v->first[0].request), "start");
    }
    if (work->has_second) {
        must(MPI_Start(&v->second[0].request), "start");
    }
    for (int c = 0; c < v->slices && work->has_first; c++) {
        must(MPIX_Pready(c, v->first[0].request), "ready");
    }
    work->own(v, true);
    for (int c = 0; c < v->slices; c++) {
        if (work->has_first) {
            wait_for_partitions(v, c);
        }
        work->slice(v, c);
        record(events.made[c], sched.compute);
    }
    work->own(v, false);
    for (int c = 0; c < v->slices && work->has_second; c++) {
        gpu_must(gpu.event_synchronize(events.made[c]), "event");
        must(MPIX_Pready(c, v->second[0].request), "ready");
    }
    must(work->has_first ? MPIX_Wait(&v->first[0].request, MPI_STATUS_IGNORE) : MPI_SUCCESS, "wait");
    must(work->has_second ? MPIX_Wait(&v->second[0].request, MPI_STATUS_IGNORE) : MPI_SUCCESS, "wait");
    work->finish(v);
}

void sched_turn(const sched_work_t *work, sched_variant_t *v)
{
    static void (*const ways[][SCHED_WAYS])(const sched_work_t *work, sched_variant_t *v) = {
        [SCHED_HOST] = {whole_on_host, beside_on_host},
        [SCHED_STREAM] = {whole_in_stream, beside_in_streams},
        [SCHED_PARTED] = {in_partitions, in_partitions}};

    make_events();
    ways[v->side->kind][v->way](work, v);
    sched_synchronize();
}
