/* Open MPI, the component, and the parameters that a job would get: see info.h. */
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/info/info.h"

#define COMPONENT "mca_coll_dma.so"

/* ---- variables of Open MPI ---- */

static bool open_variable(const char *name, MPI_T_cvar_handle *handle, MPI_Datatype *type, int *count)
{
    int index, verbosity, binding, scope, length = 0, help_length = 0;
    MPI_T_enum values;

    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           MPI_T_cvar_get_info(index, NULL, &length, &verbosity, type, &values, NULL, &help_length, &binding, &scope) ==
               MPI_SUCCESS &&
           MPI_T_cvar_handle_alloc(index, NULL, handle, count) == MPI_SUCCESS;
}

/* Open MPI reports how much room a text may need. */
static bool read_text(const char *name, char *text, size_t room)
{
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    int count;
    char *all;
    bool done;

    text[0] = '\0';
    if (!open_variable(name, &handle, &type, &count)) {
        return false;
    }
    all = calloc((size_t)count + 1, 1);
    done = all && type == MPI_CHAR && MPI_T_cvar_read(handle, all) == MPI_SUCCESS;
    if (done) {
        snprintf(text, room, "%s", all);
    }
    free(all);
    MPI_T_cvar_handle_free(&handle);
    return done;
}

static int read_number(const char *name)
{
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    int count, value = -1;

    if (open_variable(name, &handle, &type, &count)) {
        if (type != MPI_INT || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS) {
            value = -1;
        }
        MPI_T_cvar_handle_free(&handle);
    }
    return value;
}

/* ---- the component ---- */

static int look_at_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    info_mpi_t *mpi = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (name && !strcmp(name + 1, COMPONENT)) {
        snprintf(mpi->path, sizeof(mpi->path), "%s", info->dlpi_name);
    }
    return mpi->path[0] != '\0';
}

/* Why Open MPI does not have it: found by loading it from the folders where Open MPI looks. */
static void find_why(info_mpi_t *mpi)
{
    char folders[INFO_PATH], *rest, file[INFO_PATH + sizeof(COMPONENT) + 1];

    snprintf(mpi->why, sizeof(mpi->why), "Open MPI finds no %s where it looks for components", COMPONENT);
    snprintf(folders, sizeof(folders), "%s", mpi->search);
    for (char *f = strtok_r(folders, ":", &rest); f; f = strtok_r(NULL, ":", &rest)) {
        snprintf(file, sizeof(file), "%s/%s", f, COMPONENT);
        if (access(file, F_OK)) {
            continue;
        }
        snprintf(mpi->path, sizeof(mpi->path), "%.*s", INFO_PATH - 1, file);
        if (!dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
            snprintf(mpi->why, sizeof(mpi->why), "it cannot be loaded: %s", dlerror());
        } else {
            snprintf(mpi->why, sizeof(mpi->why), "Open MPI has not taken it: the parameter coll is \"%s\"",
                     mpi->selection);
        }
        return;
    }
}

static void find_component(info_mpi_t *mpi)
{
    int major = read_number("coll_dma_major_version"), minor = read_number("coll_dma_minor_version");

    read_text("mca_base_component_path", mpi->search, sizeof(mpi->search));
    read_text("coll", mpi->selection, sizeof(mpi->selection));
    mpi->loaded = major >= 0;
    if (mpi->loaded) {
        snprintf(mpi->version, sizeof(mpi->version), "%d.%d.%d", major, minor, read_number("coll_dma_release_version"));
        dl_iterate_phdr(look_at_library, mpi);
    } else {
        find_why(mpi);
    }
}

const char *info_why_unserved(const info_mpi_t *mpi)
{
    return !mpi->loaded                    ? "Open MPI does not load the component"
           : !mpi->right_series            ? "coll/dma was built for another series of Open MPI"
           : !info_selects(mpi->selection) ? "the parameter coll excludes it"
           : mpi->params.priority < 0      ? "coll_dma_priority is negative"
                                           : NULL;
}

/* ---- parameters ---- */

/* Without the component Open MPI knows none of them. Then they are those of the environment. */
static bool read_param(const info_mpi_t *mpi, const dma_param_t *param, char *text, size_t room)
{
    char name[128];
    const char *value;

    if (mpi->loaded) {
        snprintf(name, sizeof(name), "coll_dma_%s", param->name);
        return read_text(name, text, room);
    }
    snprintf(name, sizeof(name), "OMPI_MCA_coll_dma_%s", param->name);
    value = getenv(name);
    snprintf(text, room, "%s", value ? value : "");
    return value != NULL;
}

/* The component has reported what is wrong with a value. */
static void read_params(info_mpi_t *mpi)
{
    char why[DMA_PARAM_TEXT_BYTES];

    dma_params_default(&mpi->params);
    for (int i = 0; i < DMA_PARAM_COUNT; i++) {
        const dma_param_t *param = &dma_param_table[i];
        char *text = mpi->values[i];

        if (read_param(mpi, param, text, sizeof(mpi->values[i])) &&
            strcmp(text, param->initial ? param->initial : "") != 0 &&
            dma_param_set(&mpi->params, param, text, why) == DMA_OK) {
            mpi->set |= UINT64_C(1) << i;
        }
    }
}

_Static_assert(DMA_PARAM_COUNT <= 64, "a bit for each parameter");

static void find_library(info_mpi_t *mpi)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, major = -1, minor = -1;

    MPI_Get_library_version(version, &length);
    if (sscanf(version, "Open MPI v%31[^,]", mpi->library) != 1) {
        snprintf(mpi->library, sizeof(mpi->library), "unknown");
    }
    sscanf(mpi->library, "%d.%d", &major, &minor);
    snprintf(mpi->built_for, sizeof(mpi->built_for), "%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
    mpi->right_series = major == OMPI_MAJOR_VERSION && minor == OMPI_MINOR_VERSION;
}

void info_mpi_find(info_mpi_t *mpi)
{
    int provided;

    find_library(mpi);
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
        snprintf(mpi->why, sizeof(mpi->why), "Open MPI does not start its tool interface");
        dma_params_default(&mpi->params);
        return;
    }
    find_component(mpi);
    read_params(mpi);
    (void)read_text("btl_tcp_if_include", mpi->tcp_include, sizeof(mpi->tcp_include));
    (void)read_text("btl_tcp_if_exclude", mpi->tcp_exclude, sizeof(mpi->tcp_exclude));
    mpi->open = true; /* the component stays loaded until info_mpi_close */
}

void info_mpi_close(info_mpi_t *mpi)
{
    if (mpi->open) {
        MPI_T_finalize();
    }
}
