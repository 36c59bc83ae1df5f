/*
 * Parameters of a process. params_table.h has a row for each MCA parameter; most declarations here are made from it.
 */
#ifndef DMA_PARAMS_H
#define DMA_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

typedef struct dma_params {
#define DMA_PARAM_NUMBER(type, name, initial, least, most, zero, scope, level, unit, help) type name;
#define DMA_PARAM_NAME(name, bytes, values, scope, level, help)                            char name[bytes];
#define DMA_PARAM_PATH(name, scope, level, help)                                           const char *name;
#include "dma/params_table.h"
#undef DMA_PARAM_NUMBER
#undef DMA_PARAM_NAME
#undef DMA_PARAM_PATH

    /* Not MCA parameters: facts of the process that the component fills in. */
    uint32_t local_procs; /* processes of the job on this node */
    bool yield;           /* a waiting rank gives up its core */
} dma_params_t;

void dma_params_default(dma_params_t *params);

typedef enum dma_param_kind {
    DMA_PARAM_KIND_INTEGER,
    DMA_PARAM_KIND_REAL,
    DMA_PARAM_KIND_NAME,
    DMA_PARAM_KIND_PATH,
} dma_param_kind_t;

/* A row of the table. */
typedef struct dma_param {
    const char *name; /* without the prefix coll_dma_ */
    const char *help;
    dma_param_kind_t kind;
    int level;                      /* of MPI's tool interface, by which ompi_info lists it: 1 to 9 */
    bool agreed;                    /* all ranks of a communicator adopt one value */
    bool zero;                      /* 0 is allowed although it is below `least` */
    const char *initial;            /* the default as text; NULL: none */
    const char *unit;               /* of a number, or "" */
    double least, most;             /* of a number */
    size_t offset;                  /* of the member in dma_params_t */
    size_t bytes;                   /* of the member */
    const char *(*value)(size_t i); /* the i-th allowed name; NULL: there is none */
} dma_param_t;

/* The row of a parameter in dma_param_table: DMA_PARAM_INDEX_<name>. */
enum {
#define DMA_PARAM_NUMBER(type, name, initial, least, most, zero, scope, level, unit, help) DMA_PARAM_INDEX_##name,
#define DMA_PARAM_NAME(name, bytes, values, scope, level, help)                            DMA_PARAM_INDEX_##name,
#define DMA_PARAM_PATH(name, scope, level, help)                                           DMA_PARAM_INDEX_##name,
#include "dma/params_table.h"
#undef DMA_PARAM_NUMBER
#undef DMA_PARAM_NAME
#undef DMA_PARAM_PATH
    DMA_PARAM_COUNT
};

extern const dma_param_t dma_param_table[DMA_PARAM_COUNT];

#define DMA_PARAM_TEXT_BYTES 512

/* The allowed values of a parameter: "one of auto, sdma, none", "an integer from 0 to 1". */
void dma_param_describe(const dma_param_t *param, char *text, size_t bytes);

/* Sets a parameter from text. DMA_ERR_ARG: the value is not allowed; the parameter keeps its value, and `why` gets one
 * sentence for the user that names the parameter, the text, the allowed values and the default. A path is not copied. */
dma_status_t dma_param_set(dma_params_t *params, const dma_param_t *param, const char *text,
                           char why[DMA_PARAM_TEXT_BYTES]);

#endif
