/* The functions of mpix_dma.h; see queue.h. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "runtime.h"

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
    if ((code = mpix_queues_begin()) != MPI_SUCCESS) {
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
    mpix_in_stream_open(&made->in_stream, &made->stream);
    if (made->stream.why && !made->in_stream.component) {
        mpix_tell("the host waits for a queue", made->stream.why);
    }
    pthread_mutex_init(&made->order, NULL);
    made->tail = &made->head;
    made->number = made->stream.number;
    mpix_queues_add(made);
    *queue = made;
    return MPI_SUCCESS;
}

int MPIX_Queue_wait(MPIX_Queue queue)
{
    if (!queue) {
        return MPI_ERR_ARG;
    }
    mpix_queue_complete(queue, false);
    return mpix_queue_take_error(queue);
}

/* May be called after MPI_Finalize, which has carried out all operations. */
int MPIX_Queue_free(MPIX_Queue *queue)
{
    int error;

    if (!queue || !*queue) {
        return MPI_ERR_ARG;
    }
    mpix_queue_complete(*queue, true);
    error = mpix_queue_take_error(*queue);
    mpix_queues_remove(*queue);
    mpix_in_stream_close(&(*queue)->in_stream);
    mpix_stream_close(&(*queue)->stream, (*queue)->number, (*queue)->broken);
    pthread_mutex_destroy(&(*queue)->order);
    free((*queue)->since.at);
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

/* Adds the requests to those that must not be enqueued again before a waitall. An error if one is there already. */
static int note_requests(MPIX_Queue queue, int count, const MPI_Request requests[])
{
    mpix_list_t *since = &queue->since;
    int was = since->n;

    if (!mpix_list_has_room(since, count)) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < count; i++) {
        if (mpix_list_has(since, requests[i])) {
            since->n = was;
            return MPI_ERR_REQUEST;
        }
        since->at[since->n++] = requests[i];
    }
    return MPI_SUCCESS;
}

/* The host waits for the work that is before a start in the stream. */
static int synchronize(MPIX_Queue queue)
{
    if (!mpix_in_stream_is_used()) {
        return mpix_stream_synchronize(&queue->stream);
    }
    return mpix_in_stream_settle(&queue->stream) ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Enqueues the store or the wait of an operation in the stream. If the stream cannot wait, the host waits for it at a start. */
static int enqueue_in_stream(MPIX_Queue queue, mpix_kind_t kind, uint64_t number)
{
    const mpix_stream_t *stream = &queue->stream;

    if (stream->type == MPIX_QUEUE_THREAD) {
        return MPI_SUCCESS;
    }
    if (!stream->words) {
        return kind == MPIX_START ? synchronize(queue) : MPI_SUCCESS;
    }
    return kind == MPIX_START ? mpix_stream_signal(stream, number) : mpix_stream_gate(stream, number);
}

/* Gives the stream the starts that it can make. The others stay in the operation. */
static int start_in_stream(MPIX_Queue queue, mpix_operation_t *operation)
{
    bool served;
    int left = 0, code = MPI_SUCCESS;

    for (int i = 0; i < operation->count && code == MPI_SUCCESS; i++) {
        code = mpix_in_stream_start(&queue->in_stream, &queue->stream, operation->requests[i], &served);
        if (!served) {
            operation->requests[left++] = operation->requests[i];
        }
    }
    operation->count = operation->left = left;
    mpix_queue_watch(queue);
    return code;
}

/* Appends the operation to the list, behind what the stream has to do for it. */
static int append(MPIX_Queue queue, mpix_operation_t *operation)
{
    int code;

    operation->number = queue->number + 1;
    code = enqueue_in_stream(queue, operation->kind, operation->number);
    if (code != MPI_SUCCESS) {
        return code;
    }
    queue->number++;
    queue->listed = operation->kind == MPIX_START;
    mpix_queue_append(queue, operation);
    return MPI_SUCCESS;
}

/* Notes the requests, gives the stream what it does by itself, and appends the rest to the list. *listed: there is a rest. Then the
 * thread may have carried out the operation already, and freed it. */
static int put(MPIX_Queue queue, mpix_operation_t *operation, bool *listed)
{
    mpix_kind_t kind = operation->kind;
    int was = queue->since.n, code = note_requests(queue, operation->count, operation->requests), later;

    *listed = false;
    if (code != MPI_SUCCESS) {
        return code;
    }
    if (kind == MPIX_START) {
        code = start_in_stream(queue, operation);
        *listed = code == MPI_SUCCESS && operation->count > 0;
    } else {
        code = mpix_in_stream_waitall(&queue->in_stream);
        *listed = queue->listed || !queue->in_stream.component; /* also after an error: other starts are waited for */
    }
    if (*listed) {
        later = append(queue, operation);
        *listed = later == MPI_SUCCESS;
        code = code == MPI_SUCCESS ? later : code;
    }
    if (kind == MPIX_WAITALL && code == MPI_SUCCESS) {
        queue->since.n = 0;
    } else if (code != MPI_SUCCESS) {
        queue->since.n = was;
    }
    return code;
}

static int enqueue(MPIX_Queue queue, mpix_kind_t kind, int count, const MPI_Request requests[])
{
    mpix_operation_t *operation;
    bool listed;
    int code;

    if (!mpi_runs()) {
        return MPI_ERR_OTHER;
    }
    if (mpix_stream_is_captured(&queue->stream)) {
        return MPI_ERR_UNSUPPORTED_OPERATION; /* each start has numbers of its own, which a graph would repeat */
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
    code = put(queue, operation, &listed);
    pthread_mutex_unlock(&queue->order);
    if (!listed) {
        free(operation);
    }
    if (code == MPI_SUCCESS) {
        (void)mpix_agent_turn();
    }
    return code;
}

/* Could all of them be noted? Then none is noted yet. */
static int check_requests(MPIX_Queue queue, int count, const MPI_Request requests[])
{
    int was, code;

    pthread_mutex_lock(&queue->order);
    was = queue->since.n;
    code = note_requests(queue, count, requests);
    queue->since.n = was;
    pthread_mutex_unlock(&queue->order);
    return code;
}

int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[])
{
    int code;

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
    if (!queue->in_stream.component) {
        return count > 0 ? enqueue(queue, MPIX_START, count, requests) : MPI_SUCCESS;
    }
    /* One by one: the host may have to wait for the stream before one of them, and then those before it must be in the stream. */
    code = check_requests(queue, count, requests);
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
        code = enqueue(queue, MPIX_START, 1, &requests[i]);
    }
    return code;
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
        mpix_queue_drain(queue);
    }
    return code;
}
