/* Prints the state of a job for programs: see state.schema.json. */
#include <string.h>
#include <unistd.h>

#include "dma/comm.h"
#include "tools/state/state.h"

/* A text in quotes. Bytes that are not text are replaced. */
static void put_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < 0x20 || c > 0x7e) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void put_member(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    put_text(text);
}

static void put_wait(const state_comm_t *comm, double now)
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_TEXT)};
    static const char *const kinds[] = {
        [DMA_WAIT_NONE] = "unknown",    [DMA_WAIT_ENTRY] = "entry", [DMA_WAIT_FLAG] = "progress",
        [DMA_WAIT_MESSAGE] = "message", [DMA_WAIT_RANK] = "rank",
    };
    const dma_state_wait_t *wait = state_wait(comm);
    char words[DMA_STATE_WORDS];

    printf(",\"wait\":");
    if (!wait) {
        printf("null");
        return;
    }
    dma_state_words(wait, comm->row.rank, comm->row.name, now, words);
    printf("{\"seconds\":%.3f,\"call\":%llu", now - wait->since, (unsigned long long)wait->call);
    put_member("operation", !wait->call                                             ? "set-up"
                            : (size_t)wait->coll < sizeof(names) / sizeof(names[0]) ? names[wait->coll]
                                                                                    : "unknown");
    put_member("phase", wait->phase);
    put_member("for", (size_t)wait->wait.kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[wait->wait.kind] : "unknown");
    printf(",\"ranks\":[");
    for (int i = 0; i < wait->wait.n && i < DMA_WAIT_RANKS; i++) {
        printf("%s%d", i ? "," : "", wait->wait.ranks[i]);
    }
    printf("],\"others\":%d", wait->wait.n > DMA_WAIT_RANKS ? wait->wait.n - DMA_WAIT_RANKS : 0);
    put_member("text", words);
    printf("}");
}

static void put_calls(const state_comm_t *comm)
{
    printf(",\"begun\":%llu,\"completed\":%llu", (unsigned long long)comm->begun, (unsigned long long)comm->completed);
}

static void put_comm(const state_comm_t *comm, double now)
{
    static const char *const states[] = {
        [DMA_COMM_NEW] = "new",          [DMA_COMM_SETUP] = "set-up",    [DMA_COMM_READY] = "ready",
        [DMA_COMM_ASIDE] = "not served", [DMA_COMM_POISONED] = "failed", [DMA_COMM_FIRST] = "first calls",
    };
    const dma_state_row_t *row = &comm->row;

    printf("{\"id\":\"%016llx\"", (unsigned long long)row->identity);
    put_member("name", row->name);
    printf(",\"rank\":%d,\"ranks\":%d,\"inside_node\":%s", row->rank, row->nranks, row->inner ? "true" : "false");
    put_member("state", row->state < sizeof(states) / sizeof(states[0]) ? states[row->state] : "new");
    put_member("reason", row->reason);
    put_calls(comm);
    printf(",\"torn\":%s", comm->torn ? "true" : "false");
    put_wait(comm, now);
    printf("}");
}

static void put_process(const state_process_t *process, double now)
{
    printf("{\"pid\":%d,\"rank\":%d", (int)process->pid, process->head.rank);
    put_member("job", process->head.job);
    put_member("process", state_kernel_word(process));
    printf(",\"unshown\":%u,\"communicators\":[", (unsigned)process->head.unshown);
    for (size_t i = 0; i < process->ncomms; i++) {
        printf("%s", i ? ",\n  " : "\n  ");
        put_comm(&process->comms[i], now);
    }
    printf("]}");
}

static void put_waited_for(void *arg, const state_comm_t *waiting, int rank, const state_process_t *process,
                           const state_comm_t *comm)
{
    bool *first = arg;

    printf("%s{\"id\":\"%016llx\"", *first ? "\n " : ",\n ", (unsigned long long)waiting->row.identity);
    *first = false;
    put_member("name", waiting->row.name);
    printf(",\"rank\":%d,\"pid\":", rank);
    if (process) {
        printf("%d", (int)process->pid);
        put_member("process", state_kernel_word(process));
        put_calls(comm);
    } else {
        printf("null");
    }
    printf("}");
}

void state_say_json(const state_list_t *list, double now)
{
    char host[256] = "";
    bool first = true;

    gethostname(host, sizeof(host) - 1);
    printf("{\"version\":1");
    put_member("host", host);
    printf(",\"processes\":[");
    for (size_t i = 0; i < list->n; i++) {
        printf("%s", i ? ",\n " : "\n ");
        put_process(&list->processes[i], now);
    }
    printf("],\n \"waited_for\":[");
    state_waited_for(list, put_waited_for, &first);
    printf("]}\n");
}
