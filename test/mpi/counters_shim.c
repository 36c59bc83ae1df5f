/*
 * A tool that can be preloaded into any MPI program. When MPI is finalized, it reads all counters of coll/dma by MPI_T, and
 * writes those that are not 0 to $DMA_TEST_COUNTERS/PID: "NAME VALUE" in each line, without the prefix coll_dma_.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 2048 };

static struct {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[MOST];
    char names[MOST][256];
    int n;
} tool;

static void begin(void)
{
    int provided, variables;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&tool.session);
    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && tool.n < MOST; i++) {
        char name[256], help[8];
        int length = sizeof(name), help_length = sizeof(help), level, class, bind, readonly, continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum values;

        if (MPI_SUCCESS != MPI_T_pvar_get_info(i, name, &length, &level, &class, &type, &values, help, &help_length,
                                               &bind, &readonly, &continuous, &atomic) ||
            strncmp(name, "coll_dma_", 9) || bind != MPI_T_BIND_NO_OBJECT) {
            continue;
        }
        if (MPI_SUCCESS == MPI_T_pvar_handle_alloc(tool.session, i, NULL, &tool.handles[tool.n], &count)) {
            snprintf(tool.names[tool.n++], sizeof(tool.names[0]), "%s", name + 9);
        }
    }
}

static void end(void)
{
    const char *folder = getenv("DMA_TEST_COUNTERS");
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%d", folder ? folder : ".", (int)getpid());
    if (!(file = fopen(path, "w"))) {
        perror(path);
        exit(3);
    }
    for (int i = 0; i < tool.n; i++) {
        unsigned long long value = 0;

        MPI_T_pvar_read(tool.session, tool.handles[i], &value);
        if (value) {
            fprintf(file, "%s %llu\n", tool.names[i], value);
        }
        MPI_T_pvar_handle_free(tool.session, &tool.handles[i]);
    }
    fclose(file);
    MPI_T_pvar_session_free(&tool.session);
    MPI_T_finalize();
}

int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv);

    begin();
    return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int rc = PMPI_Init_thread(argc, argv, required, provided);

    begin();
    return rc;
}

int MPI_Finalize(void)
{
    end();
    return PMPI_Finalize();
}
