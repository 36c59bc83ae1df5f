/*
 * The record: a text file of what has been proven about the GPUs of a node. coll_dma_accept writes it, jobs read it. The
 * engine sends no packet to a GPU that the record does not prove, except plain copies and fences.
 *
 *     coll-dma-record 1
 *
 *     section
 *         gfx        90402                  the key: what the GPU is and what drives it
 *         device     0x74a1
 *         ...
 *         provider   kfd
 *         host       node17                 where and when it was tried
 *         date       2026-08-01T12:00:00Z
 *         copy       proven                 the features
 *         timestamp  proven
 *         swap       failed: hangs
 *         prelaunch  not tried
 *         ...
 *     end
 *
 * A section is about a GPU only if its whole key is equal. A file may have sections of several nodes, also with equal keys:
 * a feature is proven if one of them proves it and none says that it failed.
 *
 * The parser takes any text. Whatever is not exactly as above makes the whole file invalid, except empty lines, comments
 * (#) and the order of the lines of a section. A file is trusted only if nobody but root and the user can have written it.
 */
#ifndef DMA_SDMA_RECORD_H
#define DMA_SDMA_RECORD_H

#include <stddef.h>
#include <stdio.h>

#include "dma/status.h"
#include "engine/sdma/node/topology.h"

#define DMA_RECORD_ALL       "all"      /* in place of a path: every packet counts as proven */
#define DMA_RECORD_MAX_BYTES (1u << 20) /* of a file; with the next one it bounds the time and memory of a job */
#define DMA_RECORD_MAX       1024       /* sections of a file */
#define DMA_RECORD_WHY_BYTES 320        /* of a reason: one line of a terminal */
#define DMA_RECORD_FILE      DMA_SYSCONFDIR "/coll-dma/record"

typedef enum dma_record_feature {
    DMA_RECORD_COPY, /* plain copies and fences, also over the links; only its failure counts */
    DMA_RECORD_TIMESTAMP,
    DMA_RECORD_STRIDES,
    DMA_RECORD_BROADCAST,
    DMA_RECORD_SWAP,
    DMA_RECORD_POLL,
    DMA_RECORD_PRELAUNCH, /* conditional execution, and programs that are revoked */
    DMA_RECORD_FEATURES
} dma_record_feature_t;

typedef enum dma_record_state { DMA_RECORD_NOT_TRIED, DMA_RECORD_PROVEN, DMA_RECORD_FAILED } dma_record_state_t;

typedef struct dma_record_result {
    dma_record_state_t state;
    char reason[96]; /* if it is not proven; may be empty */
} dma_record_result_t;

/* The words of a section, in this order. What is not known is "-". */
typedef enum dma_record_word {
    DMA_RECORD_GFX, /* the key */
    DMA_RECORD_DEVICE,
    DMA_RECORD_XCCS,
    DMA_RECORD_FIRMWARE,
    DMA_RECORD_KERNEL, /* its release */
    DMA_RECORD_DRIVER, /* the version of amdgpu, if it does not belong to the kernel */
    DMA_RECORD_ROCR,
    DMA_RECORD_PROVIDER,
    DMA_RECORD_KEY,
    DMA_RECORD_HOST = DMA_RECORD_KEY, /* where and when it was tried */
    DMA_RECORD_DATE,
    DMA_RECORD_WORDS
} dma_record_word_t;

/* Without spaces. The rest of the bytes is 0, so that keys can be compared as bytes. */
typedef char dma_record_text_t[64];

typedef struct dma_record_key {
    dma_record_text_t words[DMA_RECORD_KEY];
} dma_record_key_t;

typedef struct dma_record_section {
    union {
        dma_record_key_t key;
        dma_record_text_t words[DMA_RECORD_WORDS];
    };
    dma_record_result_t results[DMA_RECORD_FEATURES];
} dma_record_section_t;

typedef struct dma_record {
    size_t n;
    dma_record_section_t *sections;
} dma_record_t;

/* The name of a feature in the file. */
const char *dma_record_feature_name(dma_record_feature_t feature);

/* The key of a GPU in this process: from its description, the kernel and ROCr. */
void dma_record_key_read(const dma_topo_gpu_t *gpu, const char *provider, dma_record_key_t *key);

/* Both: on success the caller frees the record. Otherwise `why`, of DMA_RECORD_WHY_BYTES, says what is wrong with the file:
 * it is not there or not trusted (DMA_UNSUPPORTED), or it is not a record (DMA_ERR_ARG). */
dma_status_t dma_record_load(const char *path, dma_record_t *record, char *why);
dma_status_t dma_record_parse(const char *text, size_t bytes, dma_record_t *record, char *why);
void dma_record_free(dma_record_t *record);

/* What all sections with this key say together. DMA_UNSUPPORTED: there is none; `why` names the first difference to the
 * section that is most like it. */
dma_status_t dma_record_find(const dma_record_t *record, const dma_record_key_t *key,
                             dma_record_result_t results[DMA_RECORD_FEATURES], char *why);

/* The text of a file: its first line, and a section. */
void dma_record_print_head(FILE *to);
void dma_record_print(const dma_record_section_t *section, FILE *to);

#endif
