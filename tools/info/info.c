/* coll_dma_info: the main program. See info.h, and the manual page coll_dma_info.1. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/info/info.h"

enum { DONE, NOT_POSSIBLE, WRONG_USE };

/* UCX comes last, because it replaces functions of the whole process. */
static bool find(info_t *info)
{
    gethostname(info->hostname, sizeof(info->hostname) - 1);
    info_mpi_find(&info->mpi);
    info_host_find(&info->host, &info->mpi.params);
    if (!info_gpus_find(&info->gpus, &info->mpi.params, info->options.self_test)) {
        return false;
    }
    info_net_find(info);
    return true;
}

static int print(info_t *info)
{
    info_question_t *q = &info->options.question;
    const char *why;
    out_t out;

    info_missing_find(info);
    q->device = info->options.memory_given ? q->device : info->gpus.n > 0;
    if (q->asked && (why = info_predict(info))) {
        fprintf(stderr, "coll_dma_info: %s\n", why);
        return NOT_POSSIBLE;
    }
    out_begin(&out, stdout, info->options.json);
    info_report(&out, info);
    out_end(&out);
    return ferror(stdout) ? NOT_POSSIBLE : DONE;
}

int main(int argc, char **argv)
{
    static info_t info;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *other = getenv("PMIX_RANK");
    int status = info_options_parse(&info.options, argc, argv, !strcmp(rank ? rank : other ? other : "0", "0"));

    if (status >= 0) {
        return status;
    }
    if (!find(&info)) {
        fprintf(stderr, "coll_dma_info: no memory\n");
        return NOT_POSSIBLE;
    }
    status = !info_in_job() || info_job_join(&info) ? print(&info) : DONE;
    info_job_leave(&info);
    info_gpus_free(&info.gpus);
    return status;
}
