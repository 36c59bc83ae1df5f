/*
 * Makes the document of the counters from include/dma/counters_table.h and from the lists whose entries are counted, too.
 *
 *     counters_doc DOCUMENT     prints DOCUMENT with the table between its two marks replaced
 *     counters_doc --names      prints the name of each performance variable without its prefix coll_dma_
 */
#include <stdio.h>
#include <string.h>

#include "dma/counters.h"
#include "table_doc.h"

static void print_table(void)
{
    static const char *const kinds[] = {
        [DMA_COUNTER_EVENTS] = "",
        [DMA_COUNTER_BYTES] = "bytes",
        [DMA_COUNTER_NANOSECONDS] = "nanoseconds",
        [DMA_COUNTER_LEVEL] = "bytes, a level",
    };
    dma_counter_t counter;

    printf("| variable | unit | meaning |\n|---|---|---|\n");
    for (size_t i = 0; dma_counter_describe(i, &counter) && counter.which <= DMA_COUNT_REASON; i++) {
        printf("| `coll_dma_%s`%s | %s | %s |\n", counter.name, counter.of_comm ? " \\*" : "", kinds[counter.kind],
               counter.help);
    }
    printf("\n## Reasons\n\n| `coll_dma_reason_...` | reason | what is counted | what to do |\n|---|---|---|---|\n");
    for (int i = DMA_REASON_NONE + 1; i < DMA_REASON_COUNT; i++) {
        const dma_reason_row_t *row = &dma_reasons[i];

        printf("| `%s`%s | %s | %s | %s |\n", row->name, row->of_comm ? " \\*" : "", row->text, row->effect,
               row->action);
    }
}

static int print_names(void)
{
    dma_counter_t counter;

    for (size_t i = 0; dma_counter_describe(i, &counter); i++) {
        printf("%s\n", counter.name);
        if (counter.of_comm) {
            printf("comm_%s\n", counter.name);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: counters_doc DOCUMENT | --names\n");
        return 2;
    }
    return strcmp(argv[1], "--names") ? table_doc_print(argv[1], "counters-doc", print_table) : print_names();
}
