/*
 * What differs inside Open MPI 4.1, 5.0 and 6.0. No other file of the component depends on the version. compat.h includes this
 * file after Open MPI's headers.
 */
#ifndef COLL_DMA_SERIES_H
#define COLL_DMA_SERIES_H

#include "dma/clock.h"
#include "mpi_names.h"

#if DMA_OMPI_41
#include "opal/mca/pmix/pmix.h"
#else
#include "opal/mca/pmix/pmix-internal.h"
#endif

/* The version of the component interface, and the types of a count, of an array of counts and of one of displacements. */
#if DMA_OMPI_60
#define DMA_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_3_0_0
typedef size_t dma_count_t;
typedef ompi_count_array_t dma_counts_t;
typedef ompi_disp_array_t dma_displs_t;
#elif DMA_OMPI_50
#define DMA_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
typedef int dma_count_t;
typedef const int *dma_counts_t;
typedef const int *dma_displs_t;
#else
#define DMA_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
typedef int dma_count_t;
typedef const int *dma_counts_t;
typedef const int *dma_displs_t;
#endif

/* The elements of arrays of counts and displacements, and their width, which is the same for all arrays of a call. */
#if DMA_OMPI_60
#define DMA_COUNTS_WIDTH(counts) (ompi_count_array_is_64bit(counts) ? sizeof(int64_t) : sizeof(int))
#define DMA_COUNTS_ARRAY(counts) ompi_count_array_ptr(counts)
#define DMA_DISPLS_ARRAY(displs) ompi_disp_array_ptr(displs)
#else
#define DMA_COUNTS_WIDTH(counts) sizeof(int)
#define DMA_COUNTS_ARRAY(counts) (counts)
#define DMA_DISPLS_ARRAY(displs) (displs)
#endif

/*
 * Save, install and restore a collective function of a communicator. Up to 5.0, comm_select itself copies the module's function
 * pointers after enable and drops them at the end. From 6.0 on, enable installs them and disable restores the previous ones.
 */
#define DMA_SLOT_SAVE(comm, api, fn, below)                                                                            \
    do {                                                                                                               \
        (fn) = (comm)->c_coll->coll_##api;                                                                             \
        (below) = (comm)->c_coll->coll_##api##_module;                                                                 \
    } while (0)

#if DMA_OMPI_60
#define DMA_SLOT_INSTALL(comm, api, module) MCA_COLL_INSTALL_API(comm, api, (module)->coll_##api, module, "dma")
#define DMA_SLOT_RESTORE(comm, api, module, fn, below)                                                                 \
    do {                                                                                                               \
        if ((comm)->c_coll->coll_##api##_module == (module)) {                                                         \
            MCA_COLL_INSTALL_API(comm, api, fn, below, "dma");                                                         \
        }                                                                                                              \
    } while (0)
#else
#define DMA_SLOT_INSTALL(comm, api, module)            ((void)0)
#define DMA_SLOT_RESTORE(comm, api, module, fn, below) ((void)0)
#endif

/*
 * Which flags of Open MPI may be read after MPI_Init. MPI_T_init_thread, which tools call at any time, registers the parameters of the MPI
 * layer once more and, up to 5.0, sets the level of threads to what the tool asks for: ompi_mpi_thread_multiple, and what MPI_Query_thread
 * says. Open MPI's own locks ask opal_uses_threads, and so do ours. In 4.1 it is set in MPI_Init, also for MPI_THREAD_FUNNELED, later also
 * by a session that wants several threads. Nothing clears it. The parameters of the other layers are registered only once.
 */

/* Whether programs may continue after a process has failed, and may revoke communicators (mpirun --with-ft ulfm).
 * coll/dma does not support that: a rank that waits in a collective of a revoked communicator would wait for ever. */
#if !DMA_OMPI_41 && OPAL_ENABLE_FT_MPI
#define DMA_FAULT_TOLERANT ompi_ftmpi_enabled
#else
#define DMA_FAULT_TOLERANT false
#endif

#if DMA_OMPI_41
#define DMA_MODEX_GLOBAL OPAL_PMIX_GLOBAL
#else
#define DMA_MODEX_GLOBAL PMIX_GLOBAL
#endif

/* The version of the library at run time, which may differ from the one that the component was built with. */
static inline void dma_library_version(char text[MPI_MAX_LIBRARY_VERSION_STRING])
{
#if DMA_OMPI_60
    /* Components are linked without libmpi, where the MPI functions live. */
    snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "Open MPI v%s", ompi_version_string);
#else
    int length;

    PMPI_Get_library_version(text, &length);
#endif
}

/* The value of a key of an info object, if it has one that fits. */
static inline bool dma_info_get(ompi_info_t *info, const char *key, char *text, size_t size)
{
    int found = 0;
#if DMA_OMPI_41
    int length = 0;

    if (!info || OPAL_SUCCESS != opal_info_get_valuelen(&info->super, key, &length, &found) || !found ||
        length >= (int)size) {
        return false;
    }
    return OPAL_SUCCESS == opal_info_get(&info->super, key, length, text, &found) && found;
#else
    opal_cstring_t *value = NULL;

    if (!info || OPAL_SUCCESS != opal_info_get(&info->super, key, &value, &found) || !found) {
        return false;
    }
    found = strlen(value->string) < size;
    if (found) {
        strcpy(text, value->string);
    }
    OBJ_RELEASE(value);
    return found;
#endif
}

/* Publishes data of this process for all processes of the job. False: there is nothing that would carry them. */
static inline bool dma_modex_send(const char *key, const void *data, size_t bytes)
{
    int rc;

    OPAL_MODEX_SEND_STRING(rc, DMA_MODEX_GLOBAL, (char *)key, data, bytes);
    return OPAL_SUCCESS == rc;
}

/*
 * Copies what another process publishes in its MPI_Init. 0: done. DMA_MODEX_NOTHING: it has published nothing. Else a status of
 * PMIx.
 *
 * Servers of 5.0 and later wait without end for a key that is missing. So the first look is at what this node has collected. If that
 * includes what the process's pml has published, it includes everything of that process. Otherwise Open MPI was told to collect
 * nothing in MPI_Init, and a look that may wait asks the process's own server. It ends after DMA_MODEX_SECONDS, which is far longer
 * than processes of a job begin after each other.
 */
#define DMA_MODEX_SECONDS 60
#if DMA_OMPI_41
#define DMA_MODEX_NOTHING OPAL_ERR_NOT_FOUND

static inline int dma_modex_look(const char *key, const ompi_process_name_t *name, uint8_t **data, size_t *bytes)
{
    int rc;

    OPAL_MODEX_RECV_STRING(rc, key, name, data, bytes);
    return rc;
}
#else
#define DMA_MODEX_NOTHING PMIX_ERR_NOT_FOUND
#define DMA_MODEX_PML     "pml.base.2.0" /* rank 0 of a job always publishes it */

static inline int dma_modex_get(const char *key, const ompi_process_name_t *name, const pmix_info_t *how,
                                uint8_t **data, size_t *bytes)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc;
    int rc;

    OPAL_PMIX_CONVERT_NAME(&proc, name);
    rc = PMIx_Get(&proc, key, how, 1, &value);
    if (PMIX_SUCCESS == rc && value && PMIX_BYTE_OBJECT == value->type) {
        *data = (uint8_t *)value->data.bo.bytes;
        *bytes = value->data.bo.size;
        value->data.bo.bytes = NULL; /* the caller's */
    }
    if (value) {
        PMIX_VALUE_RELEASE(value);
    }
    return rc;
}

static inline int dma_modex_look(const char *key, const ompi_process_name_t *name, uint8_t **data, size_t *bytes)
{
    pmix_info_t here, patient;
    int seconds = DMA_MODEX_SECONDS, rc;
    uint8_t *other = NULL;
    size_t size;

    PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&patient, PMIX_TIMEOUT, &seconds, PMIX_INT);
    rc = dma_modex_get(key, name, &here, data, bytes);
    if (PMIX_SUCCESS != rc && PMIX_SUCCESS != dma_modex_get(DMA_MODEX_PML, name, &here, &other, &size)) {
        rc = dma_modex_get(key, name, &patient, data, bytes);
    }
    free(other);
    PMIX_INFO_DESTRUCT(&here);
    PMIX_INFO_DESTRUCT(&patient);
    return PMIX_ERR_TIMEOUT == rc ? PMIX_ERR_NOT_FOUND : rc;
}
#endif

static inline int dma_modex_recv(const char *key, const ompi_process_name_t *name, void *data, size_t bytes)
{
    uint8_t *published = NULL;
    size_t size = 0;
    int rc = dma_modex_look(key, name, &published, &size);

    if (0 == rc && (!published || size < bytes)) {
        rc = DMA_MODEX_NOTHING;
    }
    if (0 == rc) {
        memcpy(data, published, bytes);
    }
    free(published);
    return rc;
}

/*
 * Whether another process has published the key in its MPI_Init. Servers may wait without end for a key that is missing. If everything
 * was collected in MPI_Init, the server of this node knows, and is told to answer at once. If not, and `patient`, the process's own
 * server is asked, for DMA_MODEX_SECONDS at most. Without `patient` the answer is the same on all nodes of the communicator, of which
 * `nodes` says that there are several.
 */
typedef enum dma_modex { DMA_MODEX_UNKNOWN, DMA_MODEX_THERE, DMA_MODEX_MISSING } dma_modex_t;

#if DMA_OMPI_41
static inline dma_modex_t dma_modex_ask(const char *key, const ompi_process_name_t *name, bool at_once)
{
    opal_value_t *value = NULL, *how = OBJ_NEW(opal_value_t);
    opal_list_t list;
    int rc;

    OBJ_CONSTRUCT(&list, opal_list_t);
    how->key = strdup(at_once ? OPAL_PMIX_IMMEDIATE : OPAL_PMIX_TIMEOUT);
    how->type = at_once ? OPAL_BOOL : OPAL_INT;
    if (at_once) {
        how->data.flag = true;
    } else {
        how->data.integer = DMA_MODEX_SECONDS;
    }
    opal_list_append(&list, &how->super);
    rc = opal_pmix.get(name, key, &list, &value);
    OPAL_LIST_DESTRUCT(&list);
    if (value) {
        OBJ_RELEASE(value);
        return DMA_MODEX_THERE;
    }
    return OPAL_ERR_NOT_FOUND == rc || OPAL_ERR_TIMEOUT == rc ? DMA_MODEX_MISSING : DMA_MODEX_UNKNOWN;
}
#else
static inline dma_modex_t dma_modex_ask(const char *key, const ompi_process_name_t *name, bool at_once)
{
    int seconds = DMA_MODEX_SECONDS, rc;
    double began = dma_now();
    uint8_t *data = NULL;
    pmix_info_t how;
    size_t bytes;

    if (at_once) {
        PMIX_INFO_LOAD(&how, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
    } else {
        PMIX_INFO_LOAD(&how, PMIX_TIMEOUT, &seconds, PMIX_INT);
    }
    rc = dma_modex_get(key, name, &how, &data, &bytes);
    PMIX_INFO_DESTRUCT(&how);
    free(data);
    if (PMIX_SUCCESS == rc) {
        return DMA_MODEX_THERE;
    }
    /* the servers of 5.0 turn the end of another node's wait into this */
    if (PMIX_ERROR == rc && !at_once && dma_now() - began > DMA_MODEX_SECONDS - 1) {
        return DMA_MODEX_MISSING;
    }
    return PMIX_ERR_NOT_FOUND == rc || PMIX_ERR_TIMEOUT == rc ? DMA_MODEX_MISSING : DMA_MODEX_UNKNOWN;
}
#endif

/*
 * `here`: it is a process of this node. In 6.0 the parameter async_modex is set by default. Then MPI_Init collects beside its other
 * work, but it does not return before everything is collected. The server of 5.0 looks for what other nodes have published in the
 * wrong place, and would miss what is there: only the process's own server knows. So where there are several nodes, nothing is known
 * without `patient`, also about processes of this node: those of other nodes could not know the same.
 */
static inline dma_modex_t dma_modex_has(const char *key, const ompi_process_name_t *name, bool here, bool nodes,
                                        bool patient)
{
    bool collected = opal_pmix_collect_all_data && (DMA_OMPI_60 || !opal_pmix_base_async_modex);

    if (DMA_OMPI_50 && (!here || (nodes && !patient))) {
        collected = false;
    }
    if (!collected && !patient) {
        return DMA_MODEX_UNKNOWN;
    }
    return dma_modex_ask(key, name, collected || (here && !opal_pmix_base_async_modex));
}

/* The context id of a communicator, for messages. */
static inline void dma_comm_cid(ompi_communicator_t *comm, char *text, size_t size)
{
#if DMA_OMPI_41
    snprintf(text, size, "%u", (unsigned)comm->c_contextid);
#else
    snprintf(text, size, "%s", ompi_comm_print_cid(comm));
#endif
}

#endif
