/* Traces of a job: tools/trace. An input is one file of it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuzz.h"
#include "tools/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    trace_messages_t messages;
    trace_table_t table = {0};
    trace_rank_t *ranks;
    trace_set_t set;
    char *dir;

    if (!fuzz_write("rank0.trace", data, bytes)) {
        return 0;
    }
    dir = (char *)(uintptr_t)fuzz_dir();
    if (trace_read(&set, &dir, 1) && trace_match(&set, &messages)) {
        trace_set_offsets(&set, &messages);
        trace_compute_phases(&set, &messages);
        if (trace_make_table(&set, &table)) {
            FILE *out = stdout;

            stdout = fopen("/dev/null", "w");
            trace_print_table(&set, &table);
            trace_print_json(&set, &table);
            if (trace_find_ranks(&set, &messages, &ranks)) {
                trace_print_ranks(&set, ranks);
            }
            free(ranks);
            fclose(stdout);
            stdout = out;
            trace_write_chrome(&set, "/dev/null");
            trace_write_plot(&table, "/dev/null");
        }
        trace_messages_free(&messages);
        free(table.rows);
    }
    trace_free(&set);
    return 0;
}
