/*
 * Stage 1: which checks are made, and what follows from their results. Every check is made on all GPUs before the next, more
 * dangerous one begins:
 *
 *     queues     there are queues: host-facing, and one for each link
 *     copy       a plain copy, with a fence behind it
 *     link       the same over each link, in memory of the GPUs, on the engine that a job would use
 *     timestamp, strides, broadcast, swap, poll, prelaunch     each packet that is not known to work everywhere
 *
 *     256 MiB, 1024 MiB    behind all stages: larger packets than jobs use, which AMD's own work sends, for the report alone
 *
 * After a failure, a copy of ROCr's own shows whether the GPU still works. If it does not, nothing more is tried. A packet
 * that has hung is not tried again on any GPU or with any provider. Before each packet is tried, the record is written and says
 * that the packet failed. So the record is right if the node does not survive.
 */
#include <string.h>

#include "dma/clock.h"
#include "engine/sdma/proof/trial.h"
#include "tools/accept/accept.h"

#define BROKEN "it has hung or crashed before"

void accept_set(accept_subject_t *s, dma_record_feature_t feature, dma_record_state_t state, const char *reason)
{
    dma_record_result_t *r = &s->results[feature];

    r->state = state;
    snprintf(r->reason, sizeof(r->reason), "%.*s", (int)sizeof(r->reason) - 1, reason);
    for (char *c = r->reason; *c; c++) { /* as the file takes it */
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
}

/* Runs a check and says what it showed. */
static accept_end_t run(accept_t *a, const char *name, const accept_task_t *task,
                        void (*check)(const accept_task_t *, accept_answer_t *), accept_answer_t *answer)
{
    static const char *const words[] = {"ok", "not there", "FAILED", "FAILED", "FAILED"};
    const accept_subject_t *s = task->subject;
    double begin = dma_now();
    accept_end_t end = accept_run(check, task, ACCEPT_LIMIT * a->options->seconds, answer);
    char line[ACCEPT_TEXT], peer[32] = "";

    if (accept_kernel_read(&a->kernel, line)) {
        snprintf(answer->text, sizeof(answer->text), "kernel: %.*s", ACCEPT_TEXT - 16, line);
        end = end == ACCEPT_STUCK ? ACCEPT_STUCK : ACCEPT_BROKEN;
    }
    if (check == accept_check_link) {
        snprintf(peer, sizeof(peer), " to GPU %u", task->peer);
    }
    accept_say(a, "%-10s GPU %u%s, %s: %s%s%s (%.1f s)\n", name, s->gpu, peer, s->provider, words[end],
               end == ACCEPT_PASSED ? "" : ": ", end == ACCEPT_PASSED ? "" : answer->text, dma_now() - begin);
    a->failed += end > ACCEPT_ABSENT && check != accept_check_large;
    return end;
}

void accept_look(accept_t *a, accept_subject_t *s, accept_end_t end)
{
    accept_task_t task = {.accept = a, .subject = s};
    accept_answer_t answer;

    /* The driver may be resetting the GPU. */
    if (end == ACCEPT_STUCK || run(a, "after that", &task, accept_check_runtime, &answer) != ACCEPT_PASSED) {
        accept_say(a, "Stopped: going on would be dangerous. Look at the kernel's log; the node may need a restart.\n");
        a->stopped = true;
    }
}

static void try_queues(accept_t *a, accept_subject_t *s)
{
    accept_task_t task = {.accept = a, .subject = s};
    accept_answer_t answer;
    accept_end_t end = run(a, "queues", &task, accept_check_queues, &answer);

    s->usable = end == ACCEPT_PASSED;
    s->has = answer.has;
    s->key = answer.key;
    if (end > ACCEPT_FAILED) {
        accept_look(a, s, end);
    }
}

/* Whether a feature has hung or crashed before: with this provider, or NULL, with any. */
static bool was_broken(const accept_t *a, dma_record_feature_t feature, const char *provider)
{
    for (size_t i = 0; i < a->nsubjects; i++) {
        const accept_subject_t *s = &a->subjects[i];

        if (s->broken[feature] && (!provider || !strcmp(provider, s->provider))) {
            return true;
        }
    }
    return false;
}

static void skip(accept_t *a, accept_subject_t *s, dma_record_feature_t feature, const char *why)
{
    accept_set(s, feature, DMA_RECORD_NOT_TRIED, why);
    accept_say(a, "%-10s GPU %u, %s: not tried: %s\n", dma_record_feature_name(feature), s->gpu, s->provider, why);
}

/* A plain copy, here or over a link. */
static void try_copy(accept_t *a, accept_subject_t *s, bool link, uint32_t peer)
{
    accept_task_t task = {.accept = a, .subject = s, .peer = peer};
    accept_answer_t answer;
    accept_end_t end;

    if (was_broken(a, DMA_RECORD_COPY, s->provider)) {
        s->usable = false;
        skip(a, s, DMA_RECORD_COPY, BROKEN);
        return;
    }
    end = run(a, link ? "link" : "copy", &task, link ? accept_check_link : accept_check_copy, &answer);
    if (end == ACCEPT_PASSED) {
        accept_set(s, DMA_RECORD_COPY, DMA_RECORD_PROVEN, "");
        return;
    }
    s->usable = false;
    s->broken[DMA_RECORD_COPY] = end > ACCEPT_FAILED;
    accept_set(s, DMA_RECORD_COPY, end == ACCEPT_ABSENT ? DMA_RECORD_NOT_TRIED : DMA_RECORD_FAILED, answer.text);
    if (end != ACCEPT_ABSENT) {
        accept_look(a, s, end);
    }
}

/* Why a packet is not tried with a subject, or NULL. */
static const char *not_tried(const accept_t *a, const accept_subject_t *s, const dma_trial_packet_t *packet)
{
    if (!(s->has & packet->has)) {
        return "not used on GPUs of this generation";
    }
    if (was_broken(a, packet->feature, NULL)) {
        return BROKEN;
    }
    return packet->feature == DMA_RECORD_PRELAUNCH && s->results[DMA_RECORD_POLL].state != DMA_RECORD_PROVEN
               ? "it needs poll"
               : NULL;
}

static void try_packet(accept_t *a, accept_subject_t *s, unsigned packet)
{
    dma_record_feature_t feature = dma_trial_packets[packet].feature;
    accept_task_t task = {.accept = a, .subject = s, .packet = packet};
    const char *why = not_tried(a, s, &dma_trial_packets[packet]);
    accept_answer_t answer;
    accept_end_t end;

    if (why) {
        skip(a, s, feature, why);
        return;
    }
    accept_set(s, feature, DMA_RECORD_FAILED, "its trial has not ended");
    if (!accept_save(a)) {
        a->stopped = true; /* who cannot write what failed must not try it */
        return;
    }
    end = run(a, dma_record_feature_name(feature), &task, accept_check_packet, &answer);
    accept_set(s, feature,
               end == ACCEPT_PASSED   ? DMA_RECORD_PROVEN
               : end == ACCEPT_ABSENT ? DMA_RECORD_NOT_TRIED
                                      : DMA_RECORD_FAILED,
               answer.text);
    s->broken[feature] = end > ACCEPT_FAILED;
    accept_save(a);
    if (end > ACCEPT_ABSENT) {
        accept_look(a, s, end);
    }
}

void accept_stage1(accept_t *a)
{
    accept_subject_t *first = a->subjects, *behind = a->subjects + a->nsubjects;

    for (accept_subject_t *s = first; s < behind && !a->stopped; s++) {
        try_queues(a, s);
    }
    for (accept_subject_t *s = first; s < behind && !a->stopped; s++) {
        if (s->usable) {
            try_copy(a, s, false, 0);
        }
    }
    for (accept_subject_t *s = first; s < behind && !a->stopped; s++) {
        for (uint32_t peer = 0; peer < a->topo->ngpus && s->usable && !a->stopped; peer++) {
            if (peer != s->gpu && accept_is_chosen(a, peer)) {
                try_copy(a, s, true, peer);
            }
        }
    }
    for (unsigned packet = 0; packet < DMA_TRIAL_PACKETS; packet++) {
        for (accept_subject_t *s = first; s < behind && !a->stopped; s++) {
            if (s->usable) {
                try_packet(a, s, packet);
            }
        }
    }
}

/* ---- packets that are never used ---- */

/* Whether an earlier usable subject has a GPU of the same kind. */
static bool is_known_kind(const accept_t *a, const accept_subject_t *s)
{
    for (const accept_subject_t *t = a->subjects; t < s; t++) {
        if (t->usable && a->topo->gpus[t->gpu].device_id == a->topo->gpus[s->gpu].device_id) {
            return true;
        }
    }
    return false;
}

/* Packets of 256 MiB hang engines of MI355X (gen.h). Whether they do so here is worth a line in the report. The record does not
 * have it, because jobs never send them. */
void accept_large(accept_t *a)
{
    static const uint64_t mib[] = {256, 1024};

    for (size_t i = 0; i < sizeof(mib) / sizeof(mib[0]) && mib[i] << 20 <= a->options->packet; i++) {
        for (accept_subject_t *s = a->subjects; s < a->subjects + a->nsubjects; s++) {
            accept_task_t task = {.accept = a, .subject = s, .bytes = mib[i] << 20};
            accept_answer_t answer;
            accept_end_t end;
            char name[24];

            if (!s->usable || is_known_kind(a, s)) {
                continue;
            }
            snprintf(name, sizeof(name), "%u MiB", (unsigned)mib[i]);
            end = run(a, name, &task, accept_check_large, &answer);
            if (end > ACCEPT_ABSENT) {
                accept_say(a, "No job is affected: the engine sdma moves at most 128 MiB with a packet.\n");
                accept_look(a, s, end);
                return;
            }
        }
    }
}
