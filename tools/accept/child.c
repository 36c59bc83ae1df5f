/* A check in a process of its own: see accept.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "tools/accept/accept.h"

#define KILL_SECONDS 30.0 /* a process that ends waits for the driver, which gives a queue some seconds to stop */

static void child(void (*check)(const accept_task_t *, accept_answer_t *), const accept_task_t *task, int to)
{
    accept_answer_t answer = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    check(task, &answer);
    if (write(to, &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
        _exit(1);
    }
    close(to);
    /* A check that failed may have left a queue that waits. So nothing of it is released here, as if the process were killed. */
    if (!answer.passed) {
        _exit(0);
    }
    exit(0);
}

/* Reads the answer until the child has closed its end. false: it did not do so in time. */
static bool receive(int from, double until, accept_answer_t *answer, size_t *got)
{
    struct pollfd p = {.fd = from, .events = POLLIN};

    for (*got = 0;;) {
        double left = until - dma_now();
        char *to = (char *)answer + *got, rest;
        ssize_t n;

        if (left < 0 || (poll(&p, 1, (int)(left * 1000) + 1) < 0 && errno != EINTR)) {
            return false;
        }
        if (!(p.revents & (POLLIN | POLLHUP))) {
            continue;
        }
        n = *got < sizeof(*answer) ? read(from, to, sizeof(*answer) - *got) : read(from, &rest, 1);
        if (n <= 0) {
            return n == 0;
        }
        *got += (size_t)n;
    }
}

/* Waits for the end of a process. false: it has not ended in time. */
static bool reap(pid_t pid, double until, int *status)
{
    while (waitpid(pid, status, WNOHANG) != pid) {
        if (dma_now() > until) {
            return false;
        }
        usleep(2000);
    }
    return true;
}

static accept_end_t broken(accept_answer_t *answer, const char *format, int number)
{
    snprintf(answer->text, sizeof(answer->text), format, number);
    return ACCEPT_BROKEN;
}

static accept_end_t parent(pid_t pid, int from, double seconds, accept_answer_t *answer)
{
    double until = dma_now() + seconds;
    accept_answer_t received = {0};
    size_t got;
    int status;
    bool ended = receive(from, until, &received, &got) && reap(pid, until, &status);

    if (!ended) {
        kill(pid, SIGKILL);
        if (!reap(pid, dma_now() + KILL_SECONDS, &status)) {
            broken(answer, "hangs, and its process cannot be killed", 0);
            return ACCEPT_STUCK;
        }
    }
    if (got != sizeof(received) && !ended) {
        return broken(answer, "hangs", 0);
    }
    if (WIFSIGNALED(status) && ended) {
        return broken(answer, "its process was ended by signal %d", WTERMSIG(status));
    }
    if (got != sizeof(received)) {
        return broken(answer, "its process ended with status %d", WEXITSTATUS(status));
    }
    received.text[sizeof(received.text) - 1] = '\0';
    *answer = received;
    if (!ended) {
        return broken(answer, "hangs when its process ends", 0);
    }
    return answer->passed   ? ACCEPT_PASSED
           : answer->absent ? ACCEPT_ABSENT
           : answer->broken ? ACCEPT_BROKEN
                            : ACCEPT_FAILED;
}

accept_end_t accept_run(void (*check)(const accept_task_t *task, accept_answer_t *answer), const accept_task_t *task,
                        double seconds, accept_answer_t *answer)
{
    accept_end_t end;
    int ends[2];
    pid_t pid;

    *answer = (accept_answer_t){0};
    if (pipe(ends)) {
        return broken(answer, "there is no pipe", 0);
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(check, task, ends[1]);
    }
    close(ends[1]);
    end = pid < 0 ? broken(answer, "there is no process", 0) : parent(pid, ends[0], seconds, answer);
    close(ends[0]);
    return end;
}
