/*
 * coll_dma_accept: tries on a node, in the order of danger, what the engine sdma does there, and writes what is proven into
 * the record (engine/sdma/proof/record.h) that jobs read.
 *
 *     accept.c   options, the order of the stages
 *     child.c    runs a check in a process of its own, for a limited time
 *     kernel.c   watches the kernel's log
 *     check.c    the checks of stage 1, in that process
 *     gpu.c      ROCr and memory of GPUs for them
 *     stage1.c   which of them are made, and what their results mean
 *     job.c      runs mpirun
 *     stage2.c   collectives under mpirun, with what stage 1 has proven
 *     worker.c   the program of these jobs
 *     save.c     writes the record
 *
 * The parent never touches a GPU: it reads text files and starts children. So it survives whatever a check does to its
 * process, and can say what has happened.
 */
#ifndef DMA_TOOLS_ACCEPT_H
#define DMA_TOOLS_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "engine/sdma/node/topology.h"
#include "engine/sdma/proof/record.h"

#define ACCEPT_TEXT      160
#define ACCEPT_GPUS      64 /* bits of a mask; the largest node has as many GPUs, if each is partitioned */
#define ACCEPT_PROVIDERS 2
#define ACCEPT_LIMIT     8 /* times the limit of an answer: for a whole check, and for a reset by the driver */

typedef struct accept_options {
    const char *sysfs;
    const char *record;
    const char *report;   /* NULL: none */
    const char *log;      /* the kernel's log */
    const char *provider; /* NULL: all */
    const char *mpirun;   /* and its options, with spaces between them */
    uint64_t gpus;        /* bit mask */
    bool packets_only;    /* stage 1 alone */
    uint64_t repeat;      /* how often a job with armed programs is killed */
    uint64_t jobs;        /* at once, on the same GPUs */
    uint64_t largest;     /* bytes of a block whose time is measured */
    uint64_t packet;      /* bytes of the largest packet that is tried */
    double seconds;       /* in which a GPU must answer */
    double job_seconds;   /* limit of a job */
} accept_options_t;

/* What a check is made with: a GPU, by its number in the topology, and a provider of queues. */
typedef struct accept_subject {
    uint32_t gpu;
    const char *provider;
    bool usable;  /* it has queues, and they copy */
    uint32_t has; /* packets of its generation: DMA_GEN_* */
    dma_record_key_t key;
    dma_record_result_t results[DMA_RECORD_FEATURES];
    bool broken[DMA_RECORD_FEATURES]; /* it hung, faulted or crashed */
} accept_subject_t;

typedef struct accept_kernel {
    int fd; /* -1: it cannot be read */
    char part[1024];
    size_t bytes; /* of `part`: the beginning of a line */
} accept_kernel_t;

typedef struct accept {
    const accept_options_t *options;
    dma_topo_t *topo;
    FILE *report;
    accept_kernel_t kernel;
    char host[64];
    char date[32];
    size_t nsubjects;
    accept_subject_t subjects[ACCEPT_GPUS * ACCEPT_PROVIDERS];
    const char *doubted; /* the provider whose armed programs are being tried, or NULL */
    unsigned failed;     /* checks */
    bool stopped;        /* going on would be dangerous */
} accept_t;

static inline bool accept_is_chosen(const accept_t *a, uint32_t gpu)
{
    return a->options->gpus >> gpu & 1;
}

/* Is no usable subject before this one of its provider? */
static inline bool accept_is_first(const accept_t *a, size_t subject)
{
    for (size_t i = 0; i < subject; i++) {
        if (a->subjects[i].usable && !strcmp(a->subjects[i].provider, a->subjects[subject].provider)) {
            return false;
        }
    }
    return true;
}

/* ---- a check in a process of its own ---- */

/* What the child says. */
typedef struct accept_answer {
    bool passed;
    bool absent; /* there is nothing that could be tried; `text` says why */
    bool broken; /* a queue hung, or the GPU faulted */
    char text[ACCEPT_TEXT];
    uint32_t has;
    dma_record_key_t key;
} accept_answer_t;

typedef struct accept_task {
    const accept_t *accept;
    const accept_subject_t *subject;
    uint32_t peer;   /* check_link: the other GPU */
    unsigned packet; /* check_packet: of dma_trial_packets */
    uint64_t bytes;  /* check_large */
} accept_task_t;

typedef enum accept_end {
    ACCEPT_PASSED,
    ACCEPT_ABSENT,
    ACCEPT_FAILED, /* it ended and said so */
    ACCEPT_BROKEN, /* it hung, faulted or crashed */
    ACCEPT_STUCK,  /* it cannot even be killed */
} accept_end_t;

/* Runs a check in a child, which is ended after this time. `answer` has a text unless the check passed. */
accept_end_t accept_run(void (*check)(const accept_task_t *task, accept_answer_t *answer), const accept_task_t *task,
                        double seconds, accept_answer_t *answer);

/* The checks; they run in a child. */
void accept_check_queues(const accept_task_t *task, accept_answer_t *answer);
void accept_check_copy(const accept_task_t *task, accept_answer_t *answer);
void accept_check_link(const accept_task_t *task, accept_answer_t *answer);
void accept_check_packet(const accept_task_t *task, accept_answer_t *answer);
void accept_check_large(const accept_task_t *task, accept_answer_t *answer);
/* Copies to the GPU and back by ROCr itself, to see whether the GPU works at all. */
void accept_check_runtime(const accept_task_t *task, accept_answer_t *answer);

/* ---- for the checks: ROCr, and memory of GPUs ---- */

/* false, with a reason: ROCr cannot be loaded or does not start. */
bool accept_rocr_start(char *why);
/* Memory of a GPU that `user` may use as well; 0: there is none. */
uint64_t accept_gpu_memory(const dma_topo_gpu_t *gpu, const dma_topo_gpu_t *user, uint64_t bytes);

/* ---- the kernel's log ---- */

void accept_kernel_open(accept_kernel_t *kernel, const char *path);
/* Reads what the kernel has written since the last time. True if a line says that a GPU has faulted, hung or been reset. Then
 * `line` is this line. */
bool accept_kernel_read(accept_kernel_t *kernel, char line[ACCEPT_TEXT]);

/* ---- the parent ---- */

/* Prints to the terminal and into the report. */
void accept_say(accept_t *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void accept_stage1(accept_t *a);
void accept_stage2(accept_t *a);
void accept_large(accept_t *a);
/* Sets a result; the reason as the record takes it. */
void accept_set(accept_subject_t *s, dma_record_feature_t feature, dma_record_state_t state, const char *reason);
/* After a failure: does the GPU still work? If not, the rest is stopped. */
void accept_look(accept_t *a, accept_subject_t *s, accept_end_t end);

/* ---- jobs of MPI ---- */

#define ACCEPT_ARGS   96
#define ACCEPT_OUTPUT 65536
#define ACCEPT_PATH   128
#define ACCEPT_JOBS   15 /* at once */

typedef struct accept_job {
    const char *args[ACCEPT_ARGS]; /* of execvp; ends with NULL */
    unsigned nargs;
    pid_t pid;
    int from;                 /* its output */
    char folder[ACCEPT_PATH]; /* TMPDIR of the job: two of them must not share Open MPI's session directory */
    bool ended, killed;
    int status;
    size_t bytes;
    char output[ACCEPT_OUTPUT]; /* the beginning of it */
} accept_job_t;

/* A path for mkstemp or mkdtemp in the folder for temporary files. */
void accept_temporary(const char *name, char path[ACCEPT_PATH]);
/* Makes an empty file there. */
bool accept_temporary_file(const char *name, char path[ACCEPT_PATH]);

void accept_job_add(accept_job_t *job, const char *arg);
/* mpirun has as many slots as there are cores, or as a batch system has given, and there may be more GPUs. Whether the command, words
 * that are each ended by a 0, must still be told to start more ranks. Commands other than mpirun have other options. */
bool accept_job_needs_slots(const char *words);
bool accept_job_start(accept_job_t *job);
/* Reads the output of jobs until all have ended, or, with `text`, until the first job has printed this text. Jobs that take
 * longer are ended. */
void accept_job_wait(accept_job_t *const *jobs, unsigned n, const char *text, double seconds);
/* The line that says most about what is wrong: the first one with a text, from that text on. The first of the texts that there is, in
 * a list that ends with NULL; else the last line. */
void accept_job_quote(const accept_job_t *job, const char *const *texts, char *to);
/* The first line that is more than decoration: what mpirun says before it explains. */
void accept_job_quote_first(const accept_job_t *job, char *to);

/* Whether the record can be written later. If not, it says why. */
bool accept_save_begin(accept_t *a);
/* Writes what is known so far. `doubted` is written as failed. So it stays failed if the node goes down. */
bool accept_save(accept_t *a);
/* Writes what has been proven so far into another file, for jobs of this program. */
bool accept_save_for_jobs(accept_t *a, const char *path);
/* Makes a profile of GPUs with which jobs arm programs wherever they can, also where the model sees no gain. */
bool accept_save_profile(char path[ACCEPT_PATH]);

#endif
