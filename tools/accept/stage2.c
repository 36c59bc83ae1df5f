/*
 * Stage 2: collectives under mpirun, with one rank on each GPU. The jobs read a record of what is proven so far, as users'
 * jobs will, and use nothing else. A feature that fails here is taken out of the record. While programs wait in queues of jobs
 * that are killed, the record says that this failed. So the record is right if the node does not survive.
 *
 *     pcpy, b2b, bcst, swap, halves    all forms with checked data, by each variant, with nothing armed
 *     types                            datatypes with gaps
 *     armed                            persistent starts with armed programs
 *     revoked                          the same with programs that are armed and revoked again and again
 *     killed                           kill -9 with armed programs, and a job behind it
 *     neighbour                        a job on the same GPUs while another one's programs wait
 *     full                             several jobs at once on the same GPUs
 *     times                            how long collectives take, by variant and size, as lines of a table
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "plan/gpu/cost.h"
#include "tools/accept/accept.h"

#define MOST_JOBS  (ACCEPT_JOBS + 1)
#define RIGHT      "accept: data right"
#define WRONG      "wrong data: byte"
#define BROKEN     "the engine sdma of " /* a rank whose own engine has failed; its peers say that another rank has */
#define SERVED     "is served by the engine sdma"
#define TIME_BYTES "65536"

/* The state of the stage: one provider. */
typedef struct stage {
    accept_t *a;
    const char *provider;
    unsigned ngpus, ranks;
    char ranks_text[16], gpus_text[ACCEPT_GPUS * 3 + 32], worker[4096];
    char mpirun[4096];                              /* its words, each ended by a 0 */
    char record[ACCEPT_PATH], profile[ACCEPT_PATH]; /* of the jobs */
    accept_job_t jobs[MOST_JOBS];
} stage_t;

/* A job: what it runs and what must be true of it. */
typedef struct request {
    const char *name;
    const char *variant; /* NULL: auto */
    const char *prelaunch, *armed_seconds;
    const char *mode[16];         /* of the worker; ends with NULL */
    dma_record_feature_t feature; /* whose failure it is */
    const char *uses;             /* what each rank's engine must say of itself, or NULL */
    bool dies;                    /* it ends by a signal */
    bool anyhow;                  /* the engine need not serve it */
} request_t;

/* ---- making a job ---- */

static void add_parameter(accept_job_t *job, const char *name, const char *value)
{
    accept_job_add(job, "--mca");
    accept_job_add(job, name);
    accept_job_add(job, value);
}

static void make_job(stage_t *s, const request_t *r, accept_job_t *job)
{
    const accept_options_t *options = s->a->options;

    memset(job, 0, offsetof(accept_job_t, output));
    for (const char *word = s->mpirun; *word; word += strlen(word) + 1) {
        accept_job_add(job, word);
    }
    if (accept_job_needs_slots(s->mpirun)) {
        accept_job_add(job, "--oversubscribe");
    }
    accept_job_add(job, "-n");
    accept_job_add(job, s->ranks_text);
    add_parameter(job, "coll", "dma");
    add_parameter(job, "coll_dma_engine", "sdma");
    add_parameter(job, "coll_dma_verbose", "2");
    add_parameter(job, "coll_dma_sysfs", options->sysfs);
    add_parameter(job, "coll_dma_record", s->record);
    add_parameter(job, "coll_dma_queues", s->provider);
    add_parameter(job, "coll_dma_gpu_profile", s->profile);
    add_parameter(job, "coll_dma_prelaunch", r->prelaunch ? r->prelaunch : "0");
    if (r->armed_seconds) {
        add_parameter(job, "coll_dma_armed_seconds", r->armed_seconds);
    }
    if (r->variant) {
        add_parameter(job, "coll_dma_gpu_variant", r->variant);
        add_parameter(job, "coll_dma_gpu_queues", "1"); /* for b2b */
    }
    if (s->gpus_text[0]) {
        accept_job_add(job, "-x");
        accept_job_add(job, s->gpus_text);
    }
    accept_job_add(job, s->worker);
    for (int i = 0; r->mode[i]; i++) {
        accept_job_add(job, r->mode[i]);
    }
}

/* ---- what a job has said ---- */

/* How many lines have both texts. */
static unsigned count_lines(const char *output, const char *one, const char *other)
{
    unsigned n = 0;
    char line[1024];

    for (const char *at = output; *at;) {
        size_t length = strcspn(at, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)length, at);
        n += strstr(line, one) && strstr(line, other);
        at += length + (at[length] == '\n');
    }
    return n;
}

/* Why a job with right data is no proof, or NULL: the engine did not serve each rank, or not with these packets. */
static const char *judge_engine(const stage_t *s, const request_t *r, const accept_job_t *job, char *text)
{
    char tried[64];

    snprintf(tried, sizeof(tried), "%s failed in the self-test", dma_record_feature_name(r->feature));
    if (strstr(job->output, tried)) {
        accept_job_quote(job, (const char *const[]){tried, NULL}, text);
        return text;
    }
    if (count_lines(job->output, SERVED, "") < s->ranks) {
        accept_job_quote(job, (const char *const[]){"does not serve", NULL}, text);
        return text;
    }
    return r->uses && count_lines(job->output, SERVED, r->uses) < s->ranks ? "the job does not use it" : NULL;
}

/* What is wrong with a job that has ended, or NULL. */
static const char *judge(const stage_t *s, const request_t *r, const accept_job_t *job, char *text)
{
    if (job->killed) {
        return "hangs";
    }
    if (r->dies) {
        return WIFEXITED(job->status) && WEXITSTATUS(job->status) == 0 ? "it has not ended by a signal" : NULL;
    }
    if (!WIFEXITED(job->status) || WEXITSTATUS(job->status) || !strstr(job->output, RIGHT)) {
        accept_job_quote(job, (const char *const[]){WRONG, BROKEN, "has failed: ", "accept: rank ", NULL}, text);
        return text;
    }
    return r->anyhow ? NULL : judge_engine(s, r, job, text);
}

/* ---- running jobs ---- */

static bool is_of_stage(const stage_t *s, const accept_subject_t *subject)
{
    return !strcmp(subject->provider, s->provider);
}

/* Takes a feature out of the record, and looks whether the GPUs still work. */
static void fail(stage_t *s, const request_t *r, const char *why)
{
    char reason[ACCEPT_TEXT + 32];
    accept_subject_t *first = s->a->subjects, *behind = first + s->a->nsubjects;

    snprintf(reason, sizeof(reason), "collectives (%s): %s", r->name, why);
    for (accept_subject_t *subject = first; subject < behind; subject++) {
        if (is_of_stage(s, subject)) {
            accept_set(subject, r->feature, DMA_RECORD_FAILED, reason);
        }
    }
    accept_save(s->a);
    accept_save_for_jobs(s->a, s->record);
    for (accept_subject_t *subject = first; subject < behind && !s->a->stopped; subject++) {
        if (is_of_stage(s, subject)) {
            accept_look(s->a, subject, ACCEPT_FAILED);
        }
    }
}

static void print_output(accept_t *a, const accept_job_t *job)
{
    accept_say(a, "---- what the job said\n%s%s----\n", job->output,
               job->bytes && job->output[job->bytes - 1] != '\n' ? "\n" : "");
}

/* Says what jobs have shown that have ended. */
static bool conclude(stage_t *s, const request_t *r, accept_job_t *const *jobs, unsigned n, double begin)
{
    char text[ACCEPT_TEXT], line[ACCEPT_TEXT];
    const char *wrong = NULL;
    unsigned i = 0;

    while (i < n && !(wrong = judge(s, r, jobs[i], text))) {
        i++;
    }
    if (accept_kernel_read(&s->a->kernel, line)) {
        snprintf(text, sizeof(text), "kernel: %.*s", ACCEPT_TEXT - 16, line);
        wrong = text;
    }
    accept_say(s->a, "%-10s %u ranks, %s: %s%s (%.1f s)\n", r->name, s->ranks, s->provider, wrong ? "FAILED: " : "ok",
               wrong ? wrong : "", dma_now() - begin);
    if (wrong) {
        s->a->failed++;
        print_output(s->a, jobs[i < n ? i : 0]);
        fail(s, r, wrong);
    }
    return !wrong;
}

/* Runs jobs, all at once. */
static bool run_jobs(stage_t *s, const request_t *r, unsigned n)
{
    accept_job_t *jobs[MOST_JOBS];
    double begin = dma_now();

    for (unsigned i = 0; i < n; i++) {
        jobs[i] = &s->jobs[i];
        make_job(s, r, jobs[i]);
        if (!accept_job_start(jobs[i])) {
            jobs[i]->ended = jobs[i]->killed = true;
        }
    }
    accept_job_wait(jobs, n, NULL, s->a->options->job_seconds * n);
    return conclude(s, r, jobs, n, begin);
}

static bool run(stage_t *s, const request_t *r)
{
    return !s->a->stopped && run_jobs(s, r, 1);
}

static bool is_proven(const stage_t *s, dma_record_feature_t feature)
{
    for (size_t i = 0; i < s->a->nsubjects; i++) {
        const accept_subject_t *subject = &s->a->subjects[i];

        if (is_of_stage(s, subject) && subject->results[feature].state != DMA_RECORD_PROVEN) {
            return false;
        }
    }
    return true;
}

/* ---- the checks ---- */

static void check_variants(stage_t *s)
{
    static const request_t requests[] = {
        {.name = "pcpy", .variant = "pcpy", .mode = {"check"}, .feature = DMA_RECORD_COPY},
        {.name = "b2b", .variant = "b2b", .mode = {"check"}, .feature = DMA_RECORD_COPY},
        {.name = "bcst", .variant = "bcst", .mode = {"check"}, .feature = DMA_RECORD_BROADCAST, .uses = ", broadcast"},
        {.name = "swap", .variant = "swap", .mode = {"check"}, .feature = DMA_RECORD_SWAP, .uses = ", swap"},
        {.name = "halves", .variant = "halves", .mode = {"check"}, .feature = DMA_RECORD_SWAP, .uses = ", swap"},
        {.name = "types", .mode = {"types"}, .feature = DMA_RECORD_STRIDES},
    };

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]) && is_proven(s, DMA_RECORD_COPY); i++) {
        if (is_proven(s, requests[i].feature)) {
            run(s, &requests[i]);
        }
    }
}

#define ARMED ", conditional execution"

/* The time that a job has measured, or 0. */
static double time_of(const accept_job_t *job)
{
    const char *at = strstr(job->output, "accept: time blocking allgather " TIME_BYTES " ");
    double us;

    return at && sscanf(at, "accept: time %*s %*s %*s %lf", &us) == 1 ? us : 0;
}

/* A job of the same GPUs, while another one's programs wait in the engines: it is served, and how much slower? */
static void check_neighbour(stage_t *s)
{
    static const request_t alone = {
        .name = "alone", .variant = "pcpy", .mode = {"time", "g", "20", TIME_BYTES}, .feature = DMA_RECORD_COPY};
    request_t holds = {
        .name = "holds", .prelaunch = "2", .armed_seconds = "1000", .feature = DMA_RECORD_PRELAUNCH, .uses = ARMED};
    request_t neighbour = alone;
    accept_job_t *holder = &s->jobs[MOST_JOBS - 1];
    char file[ACCEPT_PATH];
    double before, begin = dma_now();

    if (!run(s, &alone) || (before = time_of(&s->jobs[0])) == 0 || !accept_temporary_file("hold", file)) {
        return;
    }
    holds.mode[0] = "hold";
    holds.mode[1] = file;
    make_job(s, &holds, holder);
    if (accept_job_start(holder)) {
        neighbour.name = "neighbour";
        neighbour.feature = DMA_RECORD_PRELAUNCH;
        accept_job_wait(&holder, 1, " holds", s->a->options->job_seconds);
        if (!holder->ended && run(s, &neighbour)) {
            accept_say(s->a, "An all-gather of %s bytes takes %.1f us, and %.1f us beside programs that wait.\n",
                       TIME_BYTES, before, time_of(&s->jobs[0]));
        }
        unlink(file);
        accept_job_wait(&holder, 1, NULL, s->a->options->job_seconds);
        conclude(s, &holds, &holder, 1, begin);
    }
    unlink(file);
}

static void run_armed(stage_t *s)
{
    static const request_t armed = {.name = "armed",
                                    .prelaunch = "2",
                                    .armed_seconds = "1000",
                                    .mode = {"again", "20"},
                                    .feature = DMA_RECORD_PRELAUNCH,
                                    .uses = ARMED};
    static const request_t revoked = {.name = "revoked",
                                      .prelaunch = "2",
                                      .armed_seconds = "0.001",
                                      .mode = {"again", "200"},
                                      .feature = DMA_RECORD_PRELAUNCH,
                                      .uses = ARMED};
    static const request_t killed = {.name = "killed",
                                     .prelaunch = "2",
                                     .armed_seconds = "1000",
                                     .mode = {"die"},
                                     .feature = DMA_RECORD_PRELAUNCH,
                                     .dies = true};
    static const request_t behind = {
        .name = "behind it", .prelaunch = "2", .mode = {"check"}, .feature = DMA_RECORD_PRELAUNCH, .uses = ARMED};

    if (!run(s, &armed) || !run(s, &revoked)) {
        return;
    }
    for (uint64_t i = 0; i < s->a->options->repeat; i++) {
        if (!run(s, &killed)) {
            return;
        }
    }
    if (run(s, &behind)) {
        check_neighbour(s);
    }
}

static void check_armed(stage_t *s)
{
    s->a->doubted = s->provider;
    if (accept_save(s->a)) {
        run_armed(s);
    }
    s->a->doubted = NULL;
    accept_save(s->a);
}

/* Runs so many jobs at once that the engines do not have enough queues. Then jobs share queues, or go through the host. */
static void check_full(stage_t *s)
{
    static const request_t full = {.name = "full",
                                   .prelaunch = "2",
                                   .armed_seconds = "1",
                                   .mode = {"check"},
                                   .feature = DMA_RECORD_COPY,
                                   .anyhow = true};

    if (s->a->options->jobs > 0 && !s->a->stopped) {
        run_jobs(s, &full, (unsigned)s->a->options->jobs);
    }
}

/* ---- times ---- */

typedef struct timed {
    const char *variant, *what; /* see worker.c */
    dma_gpu_family_t family;
    dma_record_feature_t feature;
} timed_t;

/* What the cost model counts for such a call. Most doorbells of an armed start are rung before it. */
static void print_time(stage_t *s, const timed_t *t, bool armed, const char *line)
{
    char form[16], collective[32];
    unsigned long bytes;
    double us;

    if (sscanf(line, "accept: time %15s %31s %lu %lf", form, collective, &bytes, &us) == 4) {
        dma_gpu_profile_t profile = dma_gpu_profile_default();
        dma_gpu_shape_t shape = {.family = t->family,
                                 .nranks = (int)s->ranks,
                                 .queues = strcmp(t->variant, "b2b") ? (int)s->ranks : 1,
                                 .bytes = bytes,
                                 .own_block = !strcmp(collective, "alltoall")};
        dma_gpu_work_t work = dma_gpu_work(&profile, &shape);
        bool starts = armed && !strcmp(form, "persistent");
        uint64_t doorbells = starts ? work.own_queues : work.queues;
        accept_say(s->a, "times,%s,%s,%d,%s,%u,%lu,%.2f,%u,%u,%u\n", t->variant, form, starts, collective, s->ranks,
                   bytes, us, (unsigned)work.packets, (unsigned)doorbells, (unsigned)work.completions);
    }
}

#define SIZE_CHARS 24 /* of a 64-bit number */

/* The sizes: powers of 4. */
static void add_sizes(const stage_t *s, request_t *r, char sizes[][SIZE_CHARS])
{
    uint64_t bytes = 1024;
    int n = 0;

    r->mode[0] = "time";
    r->mode[2] = "20";
    for (; n < 12 && bytes <= s->a->options->largest; n++, bytes *= 4) {
        snprintf(sizes[n], SIZE_CHARS, "%llu", (unsigned long long)bytes);
        r->mode[3 + n] = sizes[n];
    }
}

static void measure(stage_t *s, const timed_t *t)
{
    bool armed = is_proven(s, DMA_RECORD_PRELAUNCH);
    request_t r = {.name = "times", .variant = t->variant, .armed_seconds = "1000", .feature = t->feature};
    char sizes[12][SIZE_CHARS];

    r.prelaunch = armed ? "2" : "0";
    add_sizes(s, &r, sizes);
    r.mode[1] = t->what;
    if (!run(s, &r)) {
        return;
    }
    for (const char *at = s->jobs[0].output; (at = strstr(at, "accept: time ")); at++) {
        print_time(s, t, armed, at);
    }
}

static void check_times(stage_t *s)
{
    static const timed_t all[] = {
        {"pcpy", "ga", DMA_GPU_COPY, DMA_RECORD_COPY},     {"b2b", "ga", DMA_GPU_COPY, DMA_RECORD_COPY},
        {"bcst", "g", DMA_GPU_BCST, DMA_RECORD_BROADCAST}, {"swap", "x", DMA_GPU_SWAP, DMA_RECORD_SWAP},
        {"halves", "x", DMA_GPU_HALVES, DMA_RECORD_SWAP},
    };

    if (s->a->options->largest < 1024) {
        return;
    }
    accept_say(s->a, "times,variant,form,armed,collective,ranks,bytes,us,packets,doorbells,completions\n");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (is_proven(s, all[i].feature) && !s->a->stopped) {
            measure(s, &all[i]);
        }
    }
}

/* ---- the stage ---- */

/* The worker lies beside this program, or where it is installed. */
static bool find_worker(char *path, size_t bytes)
{
    static const char name[] = "coll_dma_accept_worker";
    ssize_t n = readlink("/proc/self/exe", path, bytes - sizeof(name) - 1);
    char *slash;

    path[n > 0 ? n : 0] = '\0';
    if ((slash = strrchr(path, '/'))) {
        memcpy(slash + 1, name, sizeof(name));
        if (!access(path, X_OK)) {
            return true;
        }
    }
    snprintf(path, bytes, "%s/%s", DMA_PKGLIBEXECDIR, name);
    return !access(path, X_OK);
}

/* Cuts the option into words. */
static bool split_mpirun(stage_t *s)
{
    const char *text = s->a->options->mpirun;
    size_t n = 0;

    while (*(text += strspn(text, " "))) {
        size_t length = strcspn(text, " ");

        if (n + length + 2 > sizeof(s->mpirun)) {
            return false;
        }
        memcpy(s->mpirun + n, text, length);
        n += length;
        s->mpirun[n++] = '\0';
        text += length;
    }
    s->mpirun[n] = '\0';
    return n > 0;
}

/* The GPUs of the job, if it does not get all of them. ROCr numbers them in the kernel's order. */
static void choose_gpus(stage_t *s)
{
    size_t used = (size_t)snprintf(s->gpus_text, sizeof(s->gpus_text), "ROCR_VISIBLE_DEVICES=");

    s->ngpus = 0;
    for (size_t i = 0; i < s->a->nsubjects; i++) {
        if (is_of_stage(s, &s->a->subjects[i])) {
            used += (size_t)snprintf(s->gpus_text + used, sizeof(s->gpus_text) - used, "%s%u", s->ngpus ? "," : "",
                                     s->a->subjects[i].gpu);
            s->ngpus++;
        }
    }
    if (s->ngpus == s->a->topo->ngpus) {
        s->gpus_text[0] = '\0';
    }
    s->ranks = s->ngpus > 1 ? s->ngpus : 2; /* two ranks share one GPU */
    snprintf(s->ranks_text, sizeof(s->ranks_text), "%u", s->ranks);
}

/* Whether mpirun runs the worker at all. If not, that says nothing about the GPUs. */
static bool can_run(stage_t *s)
{
    static const request_t start = {.mode = {"start"}, .anyhow = true};
    accept_job_t *job = &s->jobs[0];
    char text[ACCEPT_TEXT];
    const char *wrong;

    make_job(s, &start, job);
    if (!accept_job_start(job)) {
        return false;
    }
    accept_job_wait(&job, 1, NULL, s->a->options->job_seconds);
    if ((wrong = judge(s, &start, job, text))) {
        if (wrong == text && !strstr(job->output, "accept: rank ")) {
            accept_job_quote_first(job, text);
        }
        accept_say(s->a, "collectives, %s: not tried: mpirun does not run coll_dma_accept_worker: %s\n", s->provider,
                   wrong);
        s->a->failed++;
    }
    return !wrong;
}

static void try_provider(stage_t *s)
{
    choose_gpus(s);
    if (!is_proven(s, DMA_RECORD_COPY)) {
        accept_say(s->a, "collectives, %s: not tried: copies do not work on all GPUs\n", s->provider);
        return;
    }
    if (!can_run(s)) {
        return;
    }
    check_variants(s);
    /* Ranks that share a GPU do not wait on it. */
    if (s->ngpus > 1 && is_proven(s, DMA_RECORD_COPY) && is_proven(s, DMA_RECORD_PRELAUNCH)) {
        check_armed(s);
    }
    if (is_proven(s, DMA_RECORD_COPY)) {
        check_full(s);
        check_times(s);
    }
}

void accept_stage2(accept_t *a)
{
    static stage_t s;

    s.a = a;
    if (!split_mpirun(&s) || !find_worker(s.worker, sizeof(s.worker))) {
        accept_say(a, "collectives: not tried: %s\n",
                   s.mpirun[0] ? "coll_dma_accept_worker is not installed" : "no mpirun");
        a->failed++;
        return;
    }
    if (geteuid() == 0) { /* mpirun refuses root unless told */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    if (!accept_temporary_file("record", s.record) || !accept_save_for_jobs(a, s.record) ||
        !accept_save_profile(s.profile)) {
        a->failed++;
        return;
    }
    for (size_t i = 0; i < a->nsubjects && !a->stopped; i++) {
        if (a->subjects[i].usable && accept_is_first(a, i)) {
            s.provider = a->subjects[i].provider;
            try_provider(&s);
        }
    }
    unlink(s.record);
    unlink(s.profile);
}
