/* The words in which a user is told what a communicator waits for. See state.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "dma/plan.h"

/* Appends to a text of `bytes`; what does not fit is dropped. */
static __attribute__((format(printf, 3, 4))) void append(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

/* "rank 3", "ranks 3 and 5", "ranks 0, 1, 2 and 13 others" */
static void append_ranks(char *words, const dma_wait_t *wait)
{
    int named = wait->n > DMA_WAIT_RANKS ? DMA_WAIT_RANKS : wait->n;

    append(words, DMA_STATE_WORDS, "rank%s %d", wait->n > 1 ? "s" : "", wait->ranks[0]);
    for (int i = 1; i < named; i++) {
        append(words, DMA_STATE_WORDS, "%s%d", i + 1 == wait->n ? " and " : ", ", wait->ranks[i]);
    }
    if (named < wait->n) {
        append(words, DMA_STATE_WORDS, " and %d others", wait->n - named);
    }
}

static void append_whom(char *words, const dma_wait_t *wait)
{
    if (wait->kind == DMA_WAIT_NONE || wait->n <= 0) {
        return;
    }
    append(words, DMA_STATE_WORDS, wait->kind == DMA_WAIT_MESSAGE ? " for a message of " : " for ");
    append_ranks(words, wait);
    if (wait->kind == DMA_WAIT_ENTRY || wait->kind == DMA_WAIT_FLAG) {
        append(words, DMA_STATE_WORDS, ", which %s %sentered it", wait->n > 1 ? "have" : "has",
               wait->kind == DMA_WAIT_FLAG ? "" : "not ");
    }
}

void dma_state_words(const dma_state_wait_t *wait, int rank, const char *name, double now, char words[DMA_STATE_WORDS])
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_TEXT)};

    snprintf(words, DMA_STATE_WORDS, "rank %d has waited %.1f s in ", rank, now - wait->since);
    if (wait->call && (size_t)wait->coll < sizeof(names) / sizeof(names[0])) {
        append(words, DMA_STATE_WORDS, "%s, call %llu", names[wait->coll], (unsigned long long)wait->call);
    } else {
        append(words, DMA_STATE_WORDS, "the set-up");
    }
    append(words, DMA_STATE_WORDS, " (%s) on %.*s", wait->phase, DMA_STATE_TEXT / 2, name);
    append_whom(words, &wait->wait);
}
