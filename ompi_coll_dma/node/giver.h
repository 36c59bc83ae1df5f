/*
 * Giving file descriptors to other processes of the job, on one node.
 *
 * A file descriptor that stands for device memory cannot be opened through /proc, as the file of an arena can: what it
 * stands for is known to the open file alone. Other ways are no better. pidfd_getfd needs the right to trace the other
 * process, which Yama denies between siblings. So descriptors go in messages of a socket (SCM_RIGHTS).
 *
 *     asks                                                     gives
 *     ----                                                     -----
 *     connects to DIR/coll_dma.NONCE.fds              --->     a thread of the process, which sleeps until then
 *     asks: secret, base, size, id                    --->     compares the secret and the user
 *     takes descriptors, closes each when it is used  <---     opens as many as one message holds, sends and closes them
 *     ...                                             <---     ...
 *
 * Who asks waits for nothing that the other application does: the thread answers while its application computes, and also
 * if that is late. Rules:
 * - Nothing is sent before somebody asks, and nobody asks twice at once. So a process has at most GIVER_MOST descriptors open,
 *   or under way, for each process that asks, however much memory it shares.
 * - A process that has ended refuses the connection, or ends it. One that has been stopped is given up after GIVER_SECONDS.
 *   Both sides bound every wait so. Signals do not end a wait. One that comes late in a wait can double it.
 * - Both sides compare the other's user with their own. The secret has come through memory that only ranks of the job map.
 * - The socket is a path, because abstract names are not seen from other network name spaces. It lies in the job's session
 *   directory. It is removed when the process ends; if that is killed, when the launcher removes the directory. Processes that
 *   do not see the directory cannot ask.
 * - The thread calls `give` and nothing else outside of this file. `give` must not wait for a lock that is held while somebody
 *   asks: two processes may ask each other.
 */
#ifndef DMA_NODE_GIVER_H
#define DMA_NODE_GIVER_H

#include <stdint.h>

#include "dma/status.h"

#define GIVER_MOST    16 /* file descriptors in a message */
#define GIVER_SECONDS 2  /* that one side waits for the other */

/* What is asked for: memory, as its owner has described it. */
typedef struct dma_wish {
    uint64_t secret;
    uint64_t base, size, id;
} dma_wish_t;

/* A part of that memory, which one file descriptor stands for. */
typedef struct dma_given {
    uint64_t addr, bytes;
} dma_given_t;

/* Opens the part that begins at part->addr, and says how long it is. -1: there is none. The first call for a wish is for its
 * first part. */
typedef int (*dma_give_t)(void *arg, const dma_wish_t *wish, dma_given_t *part);

/* Uses the file descriptor of the next part, which stays the caller's. */
typedef dma_status_t (*dma_take_t)(void *arg, int fd, const dma_given_t *part);

typedef struct dma_giver dma_giver_t;

/* Starts the thread. `nonce`: names the socket. DMA_UNSUPPORTED: there can be no such socket, and errno says why. */
dma_status_t dma_giver_start(const char *dir, uint64_t nonce, uint64_t secret, dma_give_t give, void *arg,
                             dma_giver_t **giver);
void dma_giver_stop(dma_giver_t *giver);

/* Asks the process with this nonce, and takes all parts in order. DMA_UNSUPPORTED: not all came, and *why says why; those that
 * came have been taken. An error of `take` is returned as it is, and *why is NULL. */
dma_status_t dma_giver_ask(const char *dir, uint64_t nonce, const dma_wish_t *wish, dma_take_t take, void *arg,
                           const char **why);

#endif
