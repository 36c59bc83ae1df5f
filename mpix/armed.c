/*
 * Asks the component for engines that wait for partitions. The question is a persistent collective of whole blocks with an info
 * object that has the address of a dma_parts_t (dma/parts.h). If the component cannot do that, or there is none, the request is
 * an ordinary one and is freed again. All ranks use the engines, or none does.
 *
 * The component uses the dma_parts_t until the collective is freed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "parted.h"

static dma_parts_t *make_question(const mpix_parted_t *parted, uint64_t block, const uint64_t *ends)
{
    dma_parts_t *asked = calloc(1, sizeof(*asked));

    if (!asked) {
        return NULL;
    }
    asked->magic = DMA_PARTS_MAGIC;
    asked->units = (uint32_t)parted->nunits;
    asked->sparts = (uint32_t)parted->sparts;
    asked->rparts = (uint32_t)parted->rparts;
    asked->block = block;
    asked->ready = parted->words;
    asked->ready_distance = parted->bank_words;
    for (int i = 0; i < parted->nunits; i++) {
        uint64_t offset = i > 0 ? ends[i - 1] : 0;

        asked->unit[i] = (dma_parts_unit_t){.offset = offset,
                                            .bytes = ends[i] - offset,
                                            .sends = (uint32_t)parted->units[i].sends,
                                            .sends_end = (uint32_t)parted->units[i].sends_end};
    }
    return asked;
}

static int ask(const dma_parts_t *asked, MPI_Info info, mpix_parted_make_t make, void *arg, MPI_Request *request)
{
    char address[2 * sizeof(uintptr_t) + 1];
    int code;

    snprintf(address, sizeof(address), "%" PRIxPTR, (uintptr_t)asked);
    code = MPI_Info_set(info, DMA_PARTS_KEY, address);
    return code == MPI_SUCCESS ? make(arg, info, request) : code;
}

/* One unit stands for the whole block. It is started without a look at the ready words, which the engines wait for. */
static void use_engines(mpix_parted_t *parted, dma_parts_t *asked, MPI_Request request)
{
    parted->engines = asked;
    parted->silent = true;
    parted->nunits = 1;
    parted->requests[0] = request;
    parted->units[0] = (mpix_unit_t){.sends_end = parted->sparts, .recvs_end = parted->rparts};
}

int mpix_parted_ask_engines(mpix_parted_t *parted, uint64_t block, const uint64_t *ends, MPI_Comm comm,
                            mpix_parted_make_t make, void *arg)
{
    dma_parts_t *asked = make_question(parted, block, ends);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Info info = MPI_INFO_NULL;
    int can = parted->mapped && asked && MPI_Info_create(&info) == MPI_SUCCESS, code;

    code = MPI_Allreduce(MPI_IN_PLACE, &can, 1, MPI_INT, MPI_MIN, comm);
    if (code == MPI_SUCCESS && can) {
        code = ask(asked, info, make, arg, &request);
        can = code == MPI_SUCCESS && asked->served;
        if (code == MPI_SUCCESS) {
            code = MPI_Allreduce(MPI_IN_PLACE, &can, 1, MPI_INT, MPI_MIN, comm);
        }
    }
    if (info != MPI_INFO_NULL) {
        MPI_Info_free(&info);
    }
    if (code == MPI_SUCCESS && can) {
        use_engines(parted, asked, request);
        return MPI_SUCCESS;
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
    }
    free(asked);
    return code;
}

/* ---- words ---- */

uint32_t *mpix_parted_ready(const mpix_parted_t *parted, unsigned round)
{
    return parted->words + (round & 1) * parted->bank_words;
}

uint32_t *mpix_parted_arrived(const mpix_parted_t *parted, unsigned round)
{
    const dma_parts_t *engines = parted->engines;

    return engines && engines->in_kernels ? engines->arrived + (round & 1) * engines->arrived_distance
                                          : mpix_parted_ready(parted, round) + parted->arrived_at;
}

/* Copies the words that engines have written. The order acquire, then release, makes the data visible to a reader of our
 * word. */
void mpix_parted_copy_words(const mpix_parted_t *parted)
{
    const dma_parts_t *engines = parted->engines;
    uint32_t *arrived = mpix_parted_arrived(parted, parted->round);

    for (int i = 0; engines && !engines->in_kernels && i < parted->ranks * parted->rparts; i++) {
        uint32_t was = 0;

        if (__atomic_load_n(&engines->arrived[(parted->round & 1) * engines->arrived_distance + (size_t)i],
                            __ATOMIC_ACQUIRE)) {
            (void)__atomic_compare_exchange_n(&arrived[i], &was, 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        }
    }
}
