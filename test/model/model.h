/*
 * What the harnesses of test/model share: README.md says what they are for.
 *
 * A harness includes sources of the product, and has
 *
 *     prepare()       makes the state of a round, before its threads begin
 *     rank_main(me)   what thread `me` of THREADS does
 *     judge()         looks at the state of a round after its threads have ended
 *
 * With MODEL_GENMC, GenMC follows all executions of one round. Otherwise threads of the machine run many rounds, under
 * ThreadSanitizer if that is there.
 */
#ifndef MODEL_H
#define MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef MODEL_GENMC
#include <assert.h>
#include <genmc.h>

#define ROUNDS                1
#define check_that(condition) assert(condition)
/* A wait. An execution in which what it waits for has not come is one in which the wait has not ended: it goes no further.
 * Another one goes on from there. */
#define until(condition) __VERIFIER_assume(condition)
#else
#include <stdio.h>
#include <time.h>

#ifndef ROUNDS
#define ROUNDS 20
#endif
/* A pause between two looks: the others need the processor. A thread that only yields would wait for its next turn. */
static inline void let_others_run(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
}
#define check_that(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)
#define until(condition)                                                                                               \
    for (int looks = 0; !(condition); looks++) {                                                                       \
        if (looks > 100) {                                                                                             \
            let_others_run();                                                                                          \
        }                                                                                                              \
    }
#endif

static void prepare(void);
static void rank_main(int me);
static void judge(void);

static void *model_thread(void *arg)
{
    rank_main((int)(intptr_t)arg);
    return NULL;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];

        prepare();
        for (int i = 0; i < THREADS; i++) {
            if (pthread_create(&threads[i], NULL, model_thread, (void *)(intptr_t)i)) {
                abort();
            }
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        judge();
    }
    return 0;
}

#endif
