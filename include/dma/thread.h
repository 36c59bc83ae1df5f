/*
 * Threads of our own. Signals are for the application's threads, which may not expect them here. Those that an instruction of the
 * thread itself causes stay open: if they were blocked, the process would end without the trace of Open MPI or of a debugger.
 */
#ifndef DMA_THREAD_H
#define DMA_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create. */
static inline int dma_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t others, before;
    int error;

    sigfillset(&others);
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        sigdelset(&others, own[i]);
    }
    pthread_sigmask(SIG_SETMASK, &others, &before);
    error = pthread_create(thread, attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
