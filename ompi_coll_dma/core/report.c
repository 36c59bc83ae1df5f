/* Reports to the user. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/comm.h"

typedef struct dma_kept_report {
    struct dma_kept_report *next;
    dma_report_t level;
    char topic[32], text[512];
} dma_kept_report_t;

static _Thread_local bool keeps_reports;

void dma_reports_keep(bool keep)
{
    keeps_reports = keep;
}

/* Without memory the report is lost. */
static void keep_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *text)
{
    dma_kept_report_t *report = malloc(sizeof(*report)), **link = &proc->kept;

    if (!report) {
        return;
    }
    *report = (dma_kept_report_t){.level = level};
    snprintf(report->topic, sizeof(report->topic), "%s", topic);
    snprintf(report->text, sizeof(report->text), "%s", text);
    pthread_mutex_lock(&proc->lock);
    while (*link) {
        link = &(*link)->next;
    }
    *link = report;
    atomic_store_explicit(&proc->keeps, true, memory_order_relaxed);
    pthread_mutex_unlock(&proc->lock);
}

void dma_proc_print_kept(dma_proc_t *proc)
{
    dma_kept_report_t *list, *next;

    pthread_mutex_lock(&proc->lock);
    list = proc->kept;
    proc->kept = NULL;
    atomic_store_explicit(&proc->keeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&proc->lock);
    for (; list; list = next) {
        next = list->next;
        proc->host->report(list->level, list->topic, list->text);
        free(list);
    }
}

void dma_proc_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (keeps_reports) {
        keep_report(proc, level, topic, text);
    } else {
        proc->host->report(level, topic, text);
    }
}

void dma_comm_note_reason(dma_comm_t *comm, dma_reason_t reason)
{
    if (comm->counts.at[DMA_COUNT_REASON + (int)reason] == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, dma_reasons[reason].name, "%s: %s (coll_dma_reason_%s)",
                        comm->text, dma_reason_text(reason), dma_reasons[reason].name);
    }
    dma_comm_count_reason(comm, reason);
}
