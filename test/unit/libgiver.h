/*
 * A giver of file descriptors whose parts contain their number, and a process that asks it: shared by test_giver and
 * test_giver_waits.
 */
#ifndef DMA_TEST_LIBGIVER_H
#define DMA_TEST_LIBGIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/giver.h"

#define NONCE  UINT64_C(0x1234)
#define SECRET UINT64_C(0x5678)
#define BASE   UINT64_C(0x7f0000000000)
#define PART   UINT64_C(4096)
#define TRIES  30  /* on a busy machine, one side may stand still for GIVER_SECONDS in most of them */
#define LIMIT  300 /* seconds */

extern char giver_dir[300]; /* of the socket */

void giver_begin(void);
void giver_end(void);
int giver_open_files(void);
/* The path of its socket. */
void giver_path(char *path, size_t size);
/* A connection to it, or -1. */
int giver_connect(int flags);

/* `arg`: the first part that does not exist. */
int giver_give(void *arg, const dma_wish_t *wish, dma_given_t *part);
dma_giver_t *giver_run(uint64_t *missing);

typedef struct taken {
    uint64_t n, wrong;
    uint64_t refuse_at; /* it fails at this part */
    int most;           /* the files that were open at once */
} taken_t;

dma_status_t giver_ask_once(uint64_t secret, uint64_t parts, taken_t *t);
/* Whether one side may have given up the other, which a busy machine has held back since `began`. */
bool giver_may_be_given_up(double began);
/* Asks again only if one side may have given up the other. A refusal comes at once. */
dma_status_t giver_ask(uint64_t secret, uint64_t parts, taken_t *t);

#endif
