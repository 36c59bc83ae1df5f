/*
 * Under mpirun: what the ranks have agreed, and how they differ. See info.h.
 *
 * Every rank has found out about itself. One all-gather sets MPI_COMM_WORLD up. What the component says about that is read
 * where coll_dma_state reads it. Then rank 0 gets a line of text from each rank for each fact, and names the ranks whose
 * lines differ from its own.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dma/comm.h"
#include "tools/info/info.h"
#include "tools/state/state.h"

#define FACT_BYTES 240
#define RANKS_TEXT 256

#define FACTS(X)                                                                                                       \
    X(OPEN_MPI, "Open MPI")                                                                                            \
    X(COMPONENT, "component")                                                                                          \
    X(PARAMETERS, "parameters")                                                                                        \
    X(SERVED, "MPI_COMM_WORLD")                                                                                        \
    X(MEMFD, "shared memory")                                                                                          \
    X(CROSS, "memory of other processes")                                                                              \
    X(RUNTIME, "GPU runtime")                                                                                          \
    X(GPUS, "GPUs")                                                                                                    \
    X(ENGINES, "engines")                                                                                              \
    X(PACKETS, "packets used")                                                                                         \
    X(RECORD, "record")                                                                                                \
    X(UCX, "UCX")

enum {
#define FACT_MEMBER(id, text) FACT_##id,
    FACTS(FACT_MEMBER)
#undef FACT_MEMBER
        FACT_COUNT
};

static const char *const fact_names[] = {
#define FACT_NAME(id, text) text,
    FACTS(FACT_NAME)
#undef FACT_NAME
};

typedef struct rank_facts {
    char host[64];
    char facts[FACT_COUNT][FACT_BYTES];
} rank_facts_t;

struct info_job {
    int rank, size;
    uint32_t state; /* dma_comm_state_t; DMA_COMM_NEW: coll/dma does not have the communicator */
    char reason[DMA_STATE_TEXT];
    rank_facts_t *all; /* rank 0: by rank */
};

bool info_in_job(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

/* ---- what a rank reports ---- */

static void put(rank_facts_t *f, int fact, const char *text)
{
    snprintf(f->facts[fact], FACT_BYTES, "%.*s", FACT_BYTES - 1, text);
}

/* Appends to a fact, after a comma. */
static void append(rank_facts_t *f, int fact, const char *text)
{
    size_t used = strlen(f->facts[fact]);

    snprintf(f->facts[fact] + used, FACT_BYTES - used, "%s%s", used ? ", " : "", text);
}

static void put_params(rank_facts_t *f, const info_mpi_t *mpi)
{
    for (int i = 0; i < DMA_PARAM_COUNT; i++) {
        char text[FACT_BYTES];

        if (mpi->set >> i & 1) {
            snprintf(text, sizeof(text), "%s=%.150s", dma_param_table[i].name, mpi->values[i]);
            append(f, FACT_PARAMETERS, text);
        }
    }
}

static void put_gpus(rank_facts_t *f, const info_gpus_t *gpus)
{
    char text[FACT_BYTES];

    snprintf(text, sizeof(text), "%.200s", gpus->why);
    if (gpus->rt) {
        snprintf(text, sizeof(text), "%s %u", gpus->rt->name, gpus->rt->version);
    }
    put(f, FACT_RUNTIME, text);
    for (int i = 0; i < gpus->n; i++) {
        const info_gpu_t *gpu = &gpus->gpus[i];

        snprintf(text, sizeof(text), "%s %04x:%02x:%02x.%x", gpu->isa, gpu->pci.domain, gpu->pci.bus, gpu->pci.device,
                 gpu->pci.function);
        append(f, FACT_GPUS, text);
        append(f, FACT_ENGINES, gpu->engine[0] ? gpu->engine : "none");
        text[0] = '\0';
        for (int p = 0; p < DMA_TRIAL_PACKETS; p++) {
            size_t used = strlen(text);

            if (gpu->packets[p].used) {
                snprintf(text + used, sizeof(text) - used, "%s%s", used ? "+" : "",
                         dma_record_feature_name(dma_trial_packets[p].feature));
            }
        }
        append(f, FACT_PACKETS, text[0] ? text : "copies only");
    }
    snprintf(text, sizeof(text), "%s%s%.180s", gpus->proof_state, gpus->proof.reason[0] ? ": " : "",
             gpus->proof.reason);
    put(f, FACT_RECORD, text);
}

static void put_ucx(rank_facts_t *f, const info_t *info)
{
#ifdef DMA_HAVE_UCX
    char text[FACT_BYTES];

    if (info->ucx_usable) {
        snprintf(text, sizeof(text), "%u.%u.%u%s", info->ucx.version[0], info->ucx.version[1], info->ucx.version[2],
                 info->ucx.tcp_only ? ", TCP only" : "");
        put(f, FACT_UCX, text);
    } else {
        put(f, FACT_UCX, info->ucx.why);
    }
#else
    (void)info;
    put(f, FACT_UCX, "not built");
#endif
}

static const char *state_text(uint32_t state)
{
    return state == DMA_COMM_READY      ? "served"
           : state == DMA_COMM_ASIDE    ? "not served"
           : state == DMA_COMM_POISONED ? "failed"
                                        : "coll/dma does not have it";
}

static void put_all(rank_facts_t *f, const info_t *info)
{
    const info_mpi_t *mpi = &info->mpi;
    char text[FACT_BYTES];

    snprintf(f->host, sizeof(f->host), "%.63s", info->hostname);
    put(f, FACT_OPEN_MPI, mpi->library);
    snprintf(text, sizeof(text), "%s, %.200s", mpi->version, mpi->path);
    put(f, FACT_COMPONENT, mpi->loaded ? text : mpi->why);
    put_params(f, mpi);
    snprintf(text, sizeof(text), "%s%s%.160s", state_text(info->job->state), info->job->reason[0] ? ": " : "",
             info->job->reason);
    put(f, FACT_SERVED, text);
    put(f, FACT_MEMFD, info->host.memfd ? "memfd" : info->host.memfd_why);
    put(f, FACT_CROSS, info->host.cross ? "can be read" : info->host.cross_why);
    put_gpus(f, &info->gpus);
    put_ucx(f, info);
}

/* ---- joining ---- */

/* What the component says about MPI_COMM_WORLD: the first communicator of all ranks that is not the part of a node. */
static void read_state(info_job_t *job)
{
    state_process_t process;

    state_read(getpid(), &process);
    for (size_t i = 0; i < process.ncomms; i++) {
        const dma_state_row_t *row = &process.comms[i].row;

        if (!row->inner && row->nranks == job->size && job->state == DMA_COMM_NEW) {
            job->state = row->state;
            snprintf(job->reason, sizeof(job->reason), "%s", row->reason);
        }
    }
    state_process_free(&process);
}

static bool share(info_t *info)
{
    info_job_t *job = info->job;
    rank_facts_t *mine = calloc(1, sizeof(*mine));
    int right;

    job->all = job->rank ? NULL : calloc((size_t)job->size, sizeof(*job->all));
    right = mine && (job->rank || job->all);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (right) {
        put_all(mine, info);
        MPI_Gather(mine, (int)sizeof(*mine), MPI_BYTE, job->all, (int)sizeof(*mine), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    free(mine);
    return right;
}

/* The processors of all ranks of the host. */
static void join_processors(info_host_t *host)
{
    MPI_Comm local;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &host->local_ranks);
    MPI_Allreduce(MPI_IN_PLACE, host->cores.cpus, CPU_SETSIZE / 64, MPI_UINT64_T, MPI_BOR, local);
    MPI_Comm_free(&local);
}

/* Has MPI_COMM_WORLD set up, by a collective behind its first ones. Rank 0 says which these are. */
static void set_up(const info_job_t *job, uint32_t first_calls, int *numbers)
{
    MPI_Bcast(&first_calls, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
    for (uint32_t i = 0; i <= first_calls; i++) {
        MPI_Allgather(&job->rank, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD);
    }
}

bool info_job_join(info_t *info)
{
    static info_job_t job;
    int *numbers;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    info->job = &job;
    numbers = calloc((size_t)job.size, sizeof(*numbers));
    if (!numbers) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    set_up(&job, info->mpi.params.net_first_calls, numbers);
    read_state(&job);
    free(numbers);
    if (!share(info)) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    join_processors(&info->host);
    if (job.rank == 0) {
        info_host_measure(&info->host);
    }
    return job.rank == 0;
}

void info_job_leave(info_t *info)
{
    if (info->job) {
        free(info->job->all);
        info->job->all = NULL;
        info_mpi_close(&info->mpi); /* MPI_Finalize closes the components only then */
        MPI_Finalize();
    }
}

/* ---- the report ---- */

/* "0 to 3, 8": the marked ranks. Ends with "..." if there is no room. */
static const char *ranks_text(const bool *marked, int n, char text[RANKS_TEXT])
{
    size_t used = 0;

    text[0] = '\0';
    for (int first = 0, last; first < n; first = last + 1) {
        for (last = first; last + 1 < n && marked[last + 1] == marked[first]; last++) {
        }
        if (!marked[first]) {
            continue;
        }
        if (used > RANKS_TEXT - 40) {
            snprintf(text + used, RANKS_TEXT - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, RANKS_TEXT - used, last > first ? "%s%d to %d" : "%s%d", used ? ", " : "",
                                 first, last);
    }
    return text;
}

/* Calls `found` for each value of a fact (of the host if `fact` is -1), with the ranks that have it. */
static int each_value(const info_job_t *job, int fact, bool *marked, bool *seen,
                      void (*found)(out_t *o, const char *value, int first, const char *ranks), out_t *o)
{
    int values = 0;

    memset(seen, 0, (size_t)job->size * sizeof(*seen));
    for (int r = 0; r < job->size; r++) {
        const char *value = fact < 0 ? job->all[r].host : job->all[r].facts[fact];
        char text[RANKS_TEXT];

        if (seen[r]) {
            continue;
        }
        for (int i = 0; i < job->size; i++) {
            marked[i] = !strcmp(value, fact < 0 ? job->all[i].host : job->all[i].facts[fact]);
            seen[i] = seen[i] || marked[i];
        }
        values++;
        if (found) {
            found(o, value, r, ranks_text(marked, job->size, text));
        }
    }
    return values;
}

static void report_one_host(out_t *o, const char *host, int first, const char *ranks)
{
    out_object(o, NULL);
    out_text(o, "name", host);
    out_number(o, "first_rank", (uint64_t)first);
    out_text(o, "ranks", ranks);
    out_close(o);
    out_say(o, 1, "host %s: ranks %s; %d is the first", host, ranks, first);
}

static void report_one_value(out_t *o, const char *value, int first, const char *ranks)
{
    (void)first;
    out_object(o, NULL);
    out_text(o, "ranks", ranks);
    out_text(o, "value", value);
    out_close(o);
    out_say(o, 2, "ranks %s: %s", ranks, value[0] ? value : "none");
}

static void report_differences(out_t *o, const info_job_t *job, bool *marked, bool *seen)
{
    int differences = 0;

    out_array(o, "differences");
    for (int fact = 0; fact < FACT_COUNT; fact++) {
        if (each_value(job, fact, marked, seen, NULL, o) == 1) {
            continue;
        }
        differences++;
        out_say(o, 1, "the ranks differ: %s", fact_names[fact]);
        out_object(o, NULL);
        out_text(o, "what", fact_names[fact]);
        out_array(o, "values");
        each_value(job, fact, marked, seen, report_one_value, o);
        out_close(o);
        out_close(o);
    }
    out_close(o);
    if (!differences) {
        out_say(o, 1, "all ranks are alike in all that is above");
    }
}

static void report_forced(out_t *o, const dma_params_t *params)
{
    out_object(o, "variants");
    out_text(o, "host", params->variant);
    out_text(o, "device", params->gpu_variant);
    out_text(o, "nodes", params->net_variant);
    out_close(o);
    out_say(o, 1, "variants: host memory %s, device memory %s, between nodes %s", params->variant, params->gpu_variant,
            params->net_variant);
}

void info_job_report(out_t *o, const info_t *info)
{
    const info_job_t *job = info->job;
    bool *marked = calloc(2 * (size_t)job->size, sizeof(*marked));

    if (!marked) {
        out_text(o, "job", NULL);
        return;
    }
    out_say(o, 0, "Job: %d ranks; MPI_COMM_WORLD: %s%s%s", job->size, state_text(job->state),
            job->reason[0] ? ": " : "", job->reason);
    out_object(o, "job");
    out_number(o, "ranks", (uint64_t)job->size);
    out_bool(o, "served", job->state == DMA_COMM_READY);
    out_text(o, "state", state_text(job->state));
    out_text(o, "reason", job->reason);
    report_forced(o, &info->mpi.params);
    out_array(o, "hosts");
    each_value(job, -1, marked, marked + job->size, report_one_host, o);
    out_close(o);
    report_differences(o, job, marked, marked + job->size);
    out_close(o);
    free(marked);
}
