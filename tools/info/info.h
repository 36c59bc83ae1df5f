/*
 * coll_dma_info: what coll/dma finds on this node, and why a call would not use the copy engines.
 *
 *     info.c      the main program
 *     options.c   the command line
 *     params.c    Open MPI, the component, and the parameters as Open MPI reads them
 *     host.c      shared memory, cores, limits
 *     net.c       UCX
 *     runtime.c   starts HIP or CUDA, as an application would
 *     gpu.c       GPUs, their links, engines, queues and packets
 *     kinds.c     which kinds of memory go which way
 *     missing.c   what is missing, and what that costs
 *     predict.c   what the cost model chooses
 *     job.c       under mpirun: what the ranks have agreed, and how they differ
 *     report.c    all of it, as text and for programs: info.schema.json
 *     report_gpu.c
 *     out.c       the two forms of a report
 *
 * All answers are the product's own: this program calls the functions that a job calls, with the parameters that a job would
 * get. It only reads, unless the user asks for the self-test. The self-test makes a queue on each GPU and tries the packets
 * that its record proves, as a job does in its first collective.
 *
 * Parameters. MPI_T_init_thread makes Open MPI load its components and read its parameters, from the environment and from
 * its files, without MPI_Init. So the component that is found is the one that a job would get, and so are the values.
 */
#ifndef DMA_TOOLS_INFO_H
#define DMA_TOOLS_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/setup/choices.h"
#include "core/setup/cores.h"
#include "core/setup/measure.h"
#include "dma/params.h"
#include "dma/reason.h"
#include "engine/sdma/private.h"
#include "engine/sdma/proof/proof.h"
#include "engine/sdma/proof/trial.h"
#include "tools/info/out.h"

#ifdef DMA_HAVE_UCX
#include "ucx_tl.h"
#endif

#define INFO_GPUS  64
#define INFO_LINE  320
#define INFO_PATH  1024
#define INFO_NODES 4096

/* ---- options.c ---- */

/* What is predicted. */
typedef struct info_question {
    bool asked;
    dma_coll_t coll;
    int ranks; /* 0: as many as there are GPUs, or processors */
    uint64_t bytes;
    bool device, in_place, persistent;
    const char *profile;   /* file for GPUs; NULL: the parameter's, or the built-in one */
    int nodes;             /* 0: one node, without a layout */
    int sizes[INFO_NODES]; /* ranks of each node */
} info_question_t;

typedef struct info_options {
    bool json, self_test;
    bool memory_given; /* question.device is what the user has asked for */
    info_question_t question;
} info_options_t;

/* Returns -1: go on; otherwise an exit status. `speaks`: this process prints. */
int info_options_parse(info_options_t *options, int argc, char **argv, bool speaks);
bool info_parse_bytes(const char *text, uint64_t *bytes);
/* "2x8" or "8,8,4" */
bool info_parse_nodes(const char *text, info_question_t *question);
/* Does the parameter coll let coll/dma be used? */
bool info_selects(const char *coll);

/* ---- what is found ---- */

typedef struct info_mpi {
    char library[32], built_for[16]; /* "4.1.4", "4.1" */
    bool open;                       /* MPI_T */
    bool right_series;
    bool loaded;          /* Open MPI has the component */
    char path[INFO_PATH]; /* of its file; "": not found */
    char version[32];
    char search[INFO_PATH];                              /* where Open MPI looks */
    char selection[128];                                 /* the parameter coll */
    char tcp_include[INFO_LINE], tcp_exclude[INFO_LINE]; /* interfaces of Open MPI's own TCP */
    char why[INFO_LINE];                                 /* it is not loaded */
    uint64_t set;                                        /* bit mask of parameters that are not defaults */
    char values[DMA_PARAM_COUNT][INFO_LINE];
    dma_params_t params;
} info_mpi_t;

typedef struct info_host {
    bool memfd, cross;
    dma_reason_t memfd_reason; /* there is none */
    char memfd_why[INFO_LINE], cross_why[INFO_LINE];
    uint64_t arena_bytes;
    dma_cores_t cores;          /* of this process; in a job the processors that any rank of the host may use */
    uint32_t usable, online;    /* how many these are; and all that there are */
    int local_ranks;            /* in a job: ranks of the host; otherwise 0 */
    dma_measured_t measured[2]; /* measured by two processes about each other; all 0: they could not */
    char huge[64];              /* huge pages of shared memory, as the kernel says */
    uint64_t memory_limit;      /* of the cgroup; UINT64_MAX: none */
    uint64_t descriptors, file_bytes, locked_bytes, address_bytes; /* UINT64_MAX: no limit */
} info_host_t;

typedef struct info_provider {
    const char *name;
    bool usable, names_engines;
    char why[DMA_PROVIDER_WHY_BYTES];
} info_provider_t;

#define INFO_PROVIDERS 2

/* A kind of packet on a GPU. */
typedef struct info_packet {
    bool has;  /* its generation */
    bool used; /* a job would use it */
    char record[16];
    const char *self_test; /* "passed", "failed", or NULL: it was not tried */
    char why[128];         /* it is not proven, or has failed */
} info_packet_t;

typedef struct info_gpu {
    char name[128], isa[16];
    dma_gpu_pci_t pci;
    uint64_t memory; /* bytes; 0: not known */
    /* the engine that serves it; "" none. `engine_why`: how, or why not */
    char engine[16], engine_why[DMA_GPU_WHY_BYTES], advice[DMA_GPU_ADVICE_BYTES];
    bool tested; /* found by the self-test; otherwise it is what a job would try first */
    /* the engine sdma */
    bool located; /* `unit` has its topology and generation */
    char sdma_why[DMA_GPU_WHY_BYTES];
    dma_sdma_unit_t unit;
    info_provider_t providers[INFO_PROVIDERS];
    int nproviders;
    const char *provider; /* whose queues are used, or NULL */
    bool named;           /* the queues can name their engine */
    bool recorded;        /* the record has a section for this GPU and provider */
    char record_why[DMA_RECORD_WHY_BYTES];
    info_packet_t packets[DMA_TRIAL_PACKETS];
    dma_gpu_traits_t traits;
    dma_map_pick_t picks[INFO_GPUS]; /* by GPU */
} info_gpu_t;

typedef struct info_gpus {
    const dma_gpu_runtime_t *rt; /* NULL: none runs */
    char why[INFO_LINE];
    char kernel_why[INFO_LINE]; /* the kernel describes no GPU */
    uint32_t kernel_gpus, hidden;
    dma_proof_t proof;
    char proof_state[16]; /* "valid", "absent", "invalid", "all" */
    int n;
    info_gpu_t *gpus; /* `n` of them */
} info_gpus_t;

typedef struct info_missing {
    dma_reason_t reason; /* or DMA_REASON_NONE */
    char what[INFO_LINE];
    const char *cost;
} info_missing_t;

#define INFO_MISSING 128

/* A variant, predicted. */
typedef struct info_variant {
    const char *name;
    bool fits;
    uint64_t cost_ps;
    uint32_t queues;
    bool armed;         /* its programs wait in the queues before the start */
    const char *reason; /* why it does not fit, or NULL */
} info_variant_t;

#define INFO_VARIANTS 16

typedef struct info_prediction {
    const char *model; /* "host", "gpu", "cluster" */
    int n, chosen;     /* chosen: index, or -1 */
    info_variant_t variants[INFO_VARIANTS];
    const char *forced;        /* a variant that a parameter names, or NULL */
    const char *forced_reason; /* that variant does not fit */
    int nassumptions;
    char assumptions[8][INFO_LINE];
} info_prediction_t;

typedef struct info_job info_job_t;

typedef struct info {
    info_options_t options;
    char hostname[256];
    info_mpi_t mpi;
    info_host_t host;
#ifdef DMA_HAVE_UCX
    dma_ucx_found_t ucx;
#endif
    bool ucx_built, ucx_usable;
    info_gpus_t gpus;
    int nmissing;
    info_missing_t missing[INFO_MISSING];
    info_prediction_t prediction;
    info_job_t *job; /* NULL: not under mpirun */
} info_t;

void info_mpi_find(info_mpi_t *mpi);
void info_mpi_close(info_mpi_t *mpi);
/* Why coll/dma serves nothing in this Open MPI, or NULL. */
const char *info_why_unserved(const info_mpi_t *mpi);
void info_host_find(info_host_t *host, const dma_params_t *params);
/* The processors have changed: counts them and measures again. */
void info_host_measure(info_host_t *host);
void info_net_find(info_t *info);
/* The name, the memory and the instruction set of a device, as far as the runtime reports them. */
void info_runtime_describe(const dma_gpu_runtime_t *rt, int device, info_gpu_t *gpu);
bool info_gpus_find(info_gpus_t *gpus, const dma_params_t *params, bool self_test);
void info_gpus_free(info_gpus_t *gpus);
void info_missing_find(info_t *info);
/* NULL: done; otherwise why nothing can be predicted. */
const char *info_predict(info_t *info);

/* kinds.c */
typedef struct info_kind {
    const char *name, *made_by, *way;
    dma_reason_t reason; /* the kind is not used where it is */
} info_kind_t;
#define INFO_KINDS 10
info_kind_t info_kind(dma_gpu_kind_t kind);

/* job.c */
bool info_in_job(void);
/* MPI_Init, and a collective. False: this rank does not print. */
bool info_job_join(info_t *info);
void info_job_report(out_t *o, const info_t *info);
void info_job_leave(info_t *info);

/* report.c and report_gpu.c */
void info_report(out_t *o, const info_t *info);
void info_report_gpus(out_t *o, const info_t *info);
void info_report_prediction(out_t *o, const info_t *info);
/* 65536: "64 KiB". Valid until the fourth call after this one. */
const char *info_bytes(uint64_t bytes);

#endif
