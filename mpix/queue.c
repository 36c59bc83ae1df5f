/* The functions of mpix_dma.h; see queue.h. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

static bool mpi_runs(void)
{
    int initialized = 0, finalized = 0;

    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    return initialized && !finalized;
}

int MPIX_Queue_init(MPIX_Queue *queue, int type, void *stream)
{
    MPIX_Queue made;
    int code;

    if (!queue || type < MPIX_QUEUE_THREAD || type > MPIX_QUEUE_CUDA || (type != MPIX_QUEUE_THREAD && !stream)) {
        return MPI_ERR_ARG;
    }
    *queue = MPIX_QUEUE_NULL;
    if (!mpi_runs()) {
        return MPI_ERR_OTHER;
    }
    if ((code = mpix_agent_begin()) != MPI_SUCCESS) {
        return code;
    }
    made = calloc(1, sizeof(*made));
    if (!made) {
        return MPI_ERR_NO_MEM;
    }
    code = mpix_stream_open(&made->stream, type, stream ? *(void **)stream : NULL, mpix_agent_has_thread());
    if (code != MPI_SUCCESS) {
        free(made);
        return code;
    }
    pthread_mutex_init(&made->order, NULL);
    made->tail = &made->head;
    made->number = made->stream.words ? made->stream.words->number : 0;
    mpix_agent_add(made);
    *queue = made;
    return MPI_SUCCESS;
}

int MPIX_Queue_wait(MPIX_Queue queue)
{
    if (!queue) {
        return MPI_ERR_ARG;
    }
    mpix_agent_drain(queue);
    pthread_mutex_lock(&queue->order);
    queue->nsince = 0;
    pthread_mutex_unlock(&queue->order);
    return mpix_agent_take_error(queue);
}

/* May be called after MPI_Finalize, which has carried out all operations. */
int MPIX_Queue_free(MPIX_Queue *queue)
{
    int error;

    if (!queue || !*queue) {
        return MPI_ERR_ARG;
    }
    error = MPIX_Queue_wait(*queue);
    mpix_agent_remove(*queue);
    mpix_stream_close(&(*queue)->stream, (*queue)->number, (*queue)->broken);
    pthread_mutex_destroy(&(*queue)->order);
    free((*queue)->since);
    free(*queue);
    *queue = MPIX_QUEUE_NULL;
    return error;
}

int MPIX_Match(MPI_Request *request, MPI_Status *status)
{
    int complete = 0, code;

    if (!request || *request == MPI_REQUEST_NULL) {
        return MPI_ERR_REQUEST;
    }
    code = MPI_Request_get_status(*request, &complete, status);
    return code != MPI_SUCCESS ? code : complete ? MPI_SUCCESS : MPI_ERR_REQUEST;
}

/* ---- enqueuing ---- */

/* Makes room for the requests of one more start. False: no memory, and nothing has changed. */
static bool make_room(MPIX_Queue queue, int count)
{
    int room = 2 * (queue->nsince + count);
    MPI_Request *grown;

    if (queue->nsince + count <= queue->room) {
        return true;
    }
    grown = realloc(queue->since, (size_t)room * sizeof(*grown));
    if (grown) {
        queue->since = grown;
        queue->room = room;
    }
    return grown != NULL;
}

/* Adds the requests to those that must not be enqueued again before a waitall. An error if one is there already. */
static int note_requests(MPIX_Queue queue, int count, const MPI_Request requests[])
{
    int was = queue->nsince;

    if (!make_room(queue, count)) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < queue->nsince; k++) {
            if (queue->since[k] == requests[i]) {
                queue->nsince = was;
                return MPI_ERR_REQUEST;
            }
        }
        queue->since[queue->nsince++] = requests[i];
    }
    return MPI_SUCCESS;
}

/* Enqueues the store or the wait of an operation in the stream. If the stream cannot wait, the host waits for it at a start. */
static int enqueue_in_stream(const mpix_stream_t *stream, mpix_kind_t kind, uint64_t number)
{
    if (stream->type == MPIX_QUEUE_THREAD) {
        return MPI_SUCCESS;
    }
    if (!stream->words) {
        return kind == MPIX_START ? mpix_stream_synchronize(stream) : MPI_SUCCESS;
    }
    return kind == MPIX_START ? mpix_stream_signal(stream, number) : mpix_stream_gate(stream, number);
}

/* In this order, because the first two can fail: notes the requests, enqueues in the stream, appends to the list. */
static int put(MPIX_Queue queue, mpix_operation_t *operation)
{
    int was = queue->nsince, code = note_requests(queue, operation->count, operation->requests);

    if (code != MPI_SUCCESS) {
        return code;
    }
    operation->number = queue->number + 1;
    code = enqueue_in_stream(&queue->stream, operation->kind, operation->number);
    if (code != MPI_SUCCESS) {
        queue->nsince = was;
        return code;
    }
    if (operation->kind == MPIX_WAITALL) {
        queue->nsince = 0;
    }
    queue->number++;
    mpix_agent_append(queue, operation);
    return MPI_SUCCESS;
}

static int enqueue(MPIX_Queue queue, mpix_kind_t kind, int count, const MPI_Request requests[])
{
    mpix_operation_t *operation;
    int code;

    if (!mpi_runs()) {
        return MPI_ERR_OTHER;
    }
    operation = malloc(sizeof(*operation) + (size_t)count * sizeof(*requests));
    if (!operation) {
        return MPI_ERR_NO_MEM;
    }
    operation->kind = kind;
    operation->count = operation->left = count;
    if (count > 0) {
        memcpy(operation->requests, requests, (size_t)count * sizeof(*requests));
    }
    pthread_mutex_lock(&queue->order);
    code = put(queue, operation);
    pthread_mutex_unlock(&queue->order);
    if (code != MPI_SUCCESS) {
        free(operation);
    } else {
        mpix_agent_turn();
    }
    return code;
}

int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[])
{
    if (!queue || (count > 0 && !requests)) {
        return MPI_ERR_ARG;
    }
    if (count < 0) {
        return MPI_ERR_COUNT;
    }
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL) {
            return MPI_ERR_REQUEST;
        }
    }
    return count > 0 ? enqueue(queue, MPIX_START, count, requests) : MPI_SUCCESS;
}

int MPIX_Enqueue_start(MPIX_Queue queue, MPI_Request *request)
{
    return MPIX_Enqueue_startall(queue, 1, request);
}

int MPIX_Enqueue_waitall(MPIX_Queue queue)
{
    int code = queue ? enqueue(queue, MPIX_WAITALL, 0, NULL) : MPI_ERR_ARG;

    /* This stream cannot wait: work that the program enqueues after this call runs at once. */
    if (code == MPI_SUCCESS && queue->stream.type != MPIX_QUEUE_THREAD && !queue->stream.words) {
        mpix_agent_drain(queue);
    }
    return code;
}
