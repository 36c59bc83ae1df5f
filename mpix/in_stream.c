/* Starts that the stream of a queue makes by itself; see in_stream.h. */
#include "in_stream.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "runtime.h"

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

static const dma_in_stream_t *_Atomic found_component;

bool mpix_in_stream_is_used(void)
{
    return atomic_load_explicit(&found_component, memory_order_acquire) != NULL;
}

void mpix_in_stream_watch(void)
{
    const dma_in_stream_t *component = atomic_load_explicit(&found_component, memory_order_acquire);
    int flag;

    if (component) {
        component->push_on();
    }
    (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
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
    } else {
        atomic_store_explicit(&found_component, s->component, memory_order_release);
    }
}

void mpix_in_stream_close(mpix_in_stream_t *s)
{
    if (s->component) {
        s->component->forget(&s->stream);
        s->component = NULL;
    }
    free(s->all.at);
    free(s->left.at);
    s->all = s->left = (mpix_list_t){0};
}

/* ---- starts ---- */

bool mpix_list_has_room(mpix_list_t *list, int more)
{
    int room = 2 * (list->n + more);
    MPI_Request *grown;

    if (list->n + more <= list->room) {
        return true;
    }
    grown = realloc(list->at, (size_t)room * sizeof(*grown));
    if (grown) {
        *list = (mpix_list_t){.at = grown, .n = list->n, .room = room};
    }
    return grown != NULL;
}

bool mpix_list_has(const mpix_list_t *list, MPI_Request request)
{
    for (int i = 0; i < list->n; i++) {
        if (list->at[i] == request) {
            return true;
        }
    }
    return false;
}

/* Between two looks at a stream. */
static void turn(void)
{
    mpix_in_stream_watch();
    (void)mpix_agent_turn();
    sched_yield();
}

/* False: the stream has failed. */
static bool wait_for_room(mpix_in_stream_t *s, const mpix_stream_t *stream)
{
    while (s->nrecent == MPIX_RECENT || s->ahead > MPIX_MOST_AHEAD) {
        const mpix_recent_t *oldest = &s->recent[s->oldest];

        if (s->component->has_begun(oldest->request, oldest->started.number)) {
            s->ahead -= oldest->started.operations;
            s->oldest = (s->oldest + 1) % MPIX_RECENT;
            s->nrecent--;
        } else if (mpix_stream_progress(stream) == MPIX_STREAM_FAILED) {
            return false;
        } else {
            turn();
        }
    }
    return true;
}

static void note_start(mpix_in_stream_t *s, MPI_Request request, const dma_in_stream_started_t *started)
{
    if (started->first) {
        s->all.at[s->all.n++] = request;
    }
    s->recent[(s->oldest + s->nrecent++) % MPIX_RECENT] = (mpix_recent_t){request, *started};
    s->ahead += started->operations;
}

/* The component cannot make this start. If the stream has earlier ones of the request, they have to end first. */
static int leave_to_host(mpix_in_stream_t *s, const mpix_stream_t *stream, MPI_Request request, bool first)
{
    if (!s->told) {
        s->told = true;
        mpix_tell(NOT_ITSELF, "coll/dma cannot do that for some request (coll_dma_reason_in_stream_*)");
    }
    if (stream->words) {
        s->left.at[s->left.n++] = request;
    }
    return first ? MPI_SUCCESS : mpix_in_stream_finish(s, stream, false);
}

int mpix_in_stream_start(mpix_in_stream_t *s, const mpix_stream_t *stream, MPI_Request request, bool *served)
{
    dma_in_stream_started_t started = {.first = true};

    *served = false;
    if (!s->component || mpix_list_has(&s->left, request)) {
        return MPI_SUCCESS;
    }
    if (!mpix_list_has_room(&s->all, 1) || !mpix_list_has_room(&s->left, 1)) {
        return MPI_ERR_NO_MEM;
    }
    if (!wait_for_room(s, stream)) {
        return MPI_ERR_OTHER;
    }
    switch (s->component->start(&s->stream, request, &started)) {
    case DMA_IN_STREAM_ACTIVE:
        return MPI_ERR_REQUEST;
    case DMA_IN_STREAM_FAILED:
        s->touched = true;
        return MPI_ERR_OTHER;
    case DMA_IN_STREAM_UNSERVED:
        return leave_to_host(s, stream, request, started.first);
    case DMA_IN_STREAM_DONE:
        break;
    }
    *served = true;
    note_start(s, request, &started);
    return MPI_SUCCESS;
}

int mpix_in_stream_waitall(mpix_in_stream_t *s)
{
    int code = MPI_SUCCESS;

    for (int i = 0; i < s->all.n; i++) {
        if (s->component->has_failed(s->all.at[i])) {
            code = MPI_ERR_OTHER;
        }
    }
    return code;
}

/* ---- the end ---- */

bool mpix_in_stream_settle(const mpix_stream_t *stream)
{
    mpix_progress_t state;

    while ((state = mpix_stream_progress(stream)) == MPIX_STREAM_BUSY) {
        turn();
    }
    return state == MPIX_STREAM_DONE;
}

/* False: the device has failed. */
static bool wait_for_request(const mpix_in_stream_t *s, MPI_Request request)
{
    dma_in_stream_result_t result;

    while ((result = s->component->look(request)) == DMA_IN_STREAM_ACTIVE) {
        turn();
    }
    return result == DMA_IN_STREAM_DONE;
}

int mpix_in_stream_finish(mpix_in_stream_t *s, const mpix_stream_t *stream, bool gone)
{
    int code;
    bool good;

    if (s->all.n == 0 && !s->touched) {
        return MPI_SUCCESS;
    }
    code = mpix_in_stream_waitall(s);
    good = gone || mpix_in_stream_settle(stream);
    for (int i = 0; i < s->all.n; i++) {
        good = gone ? wait_for_request(s, s->all.at[i]) : good;
        if (s->component->end(s->all.at[i], !good) != DMA_IN_STREAM_DONE) {
            code = MPI_ERR_OTHER;
        }
    }
    s->all.n = 0;
    s->nrecent = s->ahead = 0;
    s->touched = false;
    return code;
}
