/* Starts that the stream of a queue makes by itself; see in_stream.h. */
#include "in_stream.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- the component ---- */

static int look_at_object(struct dl_phdr_info *info, size_t bytes, void *result)
{
    const char *base = strrchr(info->dlpi_name, '/');

    (void)bytes;
    if (strcmp(base ? base + 1 : info->dlpi_name, DMA_IN_STREAM_OBJECT)) {
        return 0;
    }
    *(char **)result = strdup(info->dlpi_name);
    return 1;
}

/* It stays loaded until MPI_Finalize, as coll/dma does. Not called with the loader's lock, unlike look_at_object. */
static const dma_in_stream_t *find_component(void)
{
    const dma_in_stream_t *found = NULL;
    char *name = NULL;
    void *object;

    (void)dl_iterate_phdr(look_at_object, &name);
    object = name ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    free(name);
    if (object) {
        found = dlsym(object, DMA_IN_STREAM_SYMBOL);
        dlclose(object);
    }
    return found && found->magic == DMA_IN_STREAM_MAGIC ? found : NULL;
}

static bool is_allowed(void)
{
    const char *text = getenv("MPIX_DMA_IN_STREAM");

    return text && !strcmp(text, "1");
}

#define NOT_ITSELF "the stream of a queue does not make its starts itself"

void mpix_in_stream_open(mpix_in_stream_t *s, const mpix_stream_t *stream)
{
    const char *why = NULL;

    *s = (mpix_in_stream_t){0};
    if (stream->type == MPIX_QUEUE_THREAD || !is_allowed()) {
        return;
    }
    s->stream = (dma_app_stream_t){.cuda = stream->type == MPIX_QUEUE_CUDA, .stream = stream->handle};
    s->component = find_component();
    if (!s->stream.cuda) {
        why = "HIP has no waits for memory that processes share";
    } else if (!mpix_stream_is_non_blocking(stream)) {
        why = "the stream was not created as non-blocking";
    } else if (!s->component) {
        why = "coll/dma is not loaded";
    }
    if (why) {
        s->component = NULL;
        mpix_tell(NOT_ITSELF, why);
    }
}

void mpix_in_stream_close(mpix_in_stream_t *s)
{
    if (s->component) {
        s->component->forget(&s->stream);
        s->component = NULL;
    }
    free(s->since.at);
    free(s->all.at);
    s->since = s->all = (mpix_list_t){0};
}

/* ---- starts ---- */

static bool make_room(mpix_list_t *list)
{
    int room = 2 * list->n + 2;
    MPI_Request *grown = list->n < list->room ? list->at : realloc(list->at, (size_t)room * sizeof(*grown));

    if (grown && list->n == list->room) {
        list->room = room;
    }
    list->at = grown ? grown : list->at;
    return grown != NULL;
}

int mpix_in_stream_start(mpix_in_stream_t *s, MPI_Request request, bool *served)
{
    bool first;

    *served = false;
    if (!s->component) {
        return MPI_SUCCESS;
    }
    if (!make_room(&s->since) || !make_room(&s->all)) {
        return MPI_ERR_NO_MEM;
    }
    switch (s->component->start(&s->stream, request, &first)) {
    case DMA_IN_STREAM_ACTIVE:
        return MPI_ERR_REQUEST;
    case DMA_IN_STREAM_FAILED:
        return MPI_ERR_OTHER;
    case DMA_IN_STREAM_UNSERVED:
        if (!s->told) {
            s->told = true;
            mpix_tell(NOT_ITSELF, "coll/dma cannot do that for some request (coll_dma_reason_in_stream_*)");
        }
        return MPI_SUCCESS;
    case DMA_IN_STREAM_DONE:
        break;
    }
    *served = true;
    s->since.at[s->since.n++] = request;
    if (first) {
        s->all.at[s->all.n++] = request;
    }
    return MPI_SUCCESS;
}

int mpix_in_stream_waitall(mpix_in_stream_t *s)
{
    int code = MPI_SUCCESS;

    for (int i = 0; i < s->since.n; i++) {
        if (s->component->wait(&s->stream, s->since.at[i]) != DMA_IN_STREAM_DONE) {
            code = MPI_ERR_OTHER;
        }
    }
    s->since.n = 0;
    return code;
}

/* ---- the end ---- */

bool mpix_in_stream_settle(mpix_in_stream_t *s, const mpix_stream_t *stream)
{
    mpix_progress_t state;

    while ((state = mpix_stream_progress(stream)) == MPIX_STREAM_BUSY) {
        int complete;

        for (int i = 0; i < s->all.n; i++) {
            (void)MPI_Request_get_status(s->all.at[i], &complete, MPI_STATUS_IGNORE); /* makes progress */
        }
        sched_yield();
    }
    return state == MPIX_STREAM_DONE;
}

int mpix_in_stream_finish(mpix_in_stream_t *s, const mpix_stream_t *stream)
{
    int code;
    bool good;

    if (s->all.n == 0) {
        return MPI_SUCCESS;
    }
    code = mpix_in_stream_waitall(s);
    good = mpix_in_stream_settle(s, stream);
    for (int i = 0; i < s->all.n; i++) {
        if (s->component->end(s->all.at[i], !good) != DMA_IN_STREAM_DONE) {
            code = MPI_ERR_OTHER;
        }
    }
    s->all.n = 0;
    return code;
}
