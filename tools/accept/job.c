/* Jobs of MPI: see accept.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "tools/accept/accept.h"

#define TURN_MS      100
#define TERM_SECONDS 10.0 /* so long has mpirun to end its processes */

void accept_job_add(accept_job_t *job, const char *arg)
{
    if (job->nargs + 1 < ACCEPT_ARGS) {
        job->args[job->nargs++] = arg;
        job->args[job->nargs] = NULL;
    }
}

bool accept_job_needs_slots(const char *words)
{
    const char *slash = strrchr(words, '/');
    bool says = false;

    for (const char *word = words; *word; word += strlen(word) + 1) {
        says = says || strcasestr(word, "oversubscribe");
    }
    return !says && !strncmp(slash ? slash + 1 : words, "mpi", 3);
}

static void child(const accept_job_t *job, int to)
{
    int none = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    dup2(none, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    setenv("TMPDIR", job->folder, 1);
    execvp(job->args[0], (char *const *)(uintptr_t)job->args);
    dprintf(STDERR_FILENO, "%s: %s\n", job->args[0], strerror(errno));
    _exit(127);
}

void accept_temporary(const char *name, char path[ACCEPT_PATH])
{
    const char *base = getenv("TMPDIR");

    if ((size_t)snprintf(path, ACCEPT_PATH, "%s/coll_dma_accept.%s.XXXXXX", base && *base ? base : "/tmp", name) >=
        ACCEPT_PATH) {
        snprintf(path, ACCEPT_PATH, "/tmp/coll_dma_accept.%s.XXXXXX", name);
    }
}

bool accept_temporary_file(const char *name, char path[ACCEPT_PATH])
{
    int fd;

    accept_temporary(name, path);
    fd = mkstemp(path);
    return fd >= 0 && !close(fd);
}

bool accept_job_start(accept_job_t *job)
{
    int ends[2];

    job->ended = job->killed = false;
    job->bytes = 0;
    job->output[0] = '\0';
    accept_temporary("job", job->folder);
    if (!mkdtemp(job->folder) || pipe2(ends, O_CLOEXEC)) {
        return false;
    }
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) {
        child(job, ends[1]);
    }
    close(ends[1]);
    job->from = ends[0];
    return job->pid > 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void end(accept_job_t *job)
{
    if (!job->ended && waitpid(job->pid, &job->status, 0) == job->pid) {
        job->ended = true;
        close(job->from);
        nftw(job->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* Reads what there is. At the end of its output, the job is over. */
static void receive(accept_job_t *job)
{
    char rest[4096];
    size_t room = sizeof(job->output) - 1 - job->bytes;
    ssize_t n = read(job->from, room ? job->output + job->bytes : rest, room ? room : sizeof(rest));

    if (n > 0 && room) {
        job->bytes += (size_t)n;
        job->output[job->bytes] = '\0';
    }
    if (n == 0) {
        end(job);
    }
}

/* Waits for one turn. Returns whether a job is still there. */
static bool turn(accept_job_t *const *jobs, unsigned n)
{
    struct pollfd polls[64];
    unsigned left = 0;

    for (unsigned i = 0; i < n && i < 64; i++) {
        polls[i] = (struct pollfd){.fd = jobs[i]->ended ? -1 : jobs[i]->from, .events = POLLIN};
        left += !jobs[i]->ended;
    }
    if (left && poll(polls, n, TURN_MS) > 0) {
        for (unsigned i = 0; i < n && i < 64; i++) {
            if (polls[i].revents) {
                receive(jobs[i]);
            }
        }
    }
    return left;
}

/* mpirun ends its processes if it is asked to. If it does not, the processes notice that it is gone. */
static void kill_all(accept_job_t *const *jobs, unsigned n)
{
    double until = dma_now() + TERM_SECONDS;

    for (unsigned i = 0; i < n; i++) {
        if (!jobs[i]->ended) {
            jobs[i]->killed = true;
            kill(-jobs[i]->pid, SIGTERM);
        }
    }
    while (turn(jobs, n) && dma_now() < until) {
    }
    for (unsigned i = 0; i < n; i++) {
        if (!jobs[i]->ended) {
            kill(-jobs[i]->pid, SIGKILL);
            end(jobs[i]);
        }
    }
}

void accept_job_wait(accept_job_t *const *jobs, unsigned n, const char *text, double seconds)
{
    double until = dma_now() + seconds;

    while (turn(jobs, n)) {
        if (text && strstr(jobs[0]->output, text)) {
            return;
        }
        if (dma_now() > until) {
            kill_all(jobs, n);
        }
    }
}

void accept_job_quote(const accept_job_t *job, const char *const *texts, char *to)
{
    const char *output = job->output, *at = NULL, *end = output + strlen(output);

    for (; *texts && !at; texts++) {
        at = strstr(output, *texts);
    }
    if (!at) {
        while (end > output && end[-1] == '\n') {
            end--;
        }
        for (at = end; at > output && at[-1] != '\n'; at--) {
        }
    }
    snprintf(to, ACCEPT_TEXT, "%.*s", (int)strcspn(at, "\n"), *at ? at : "it said nothing");
}

void accept_job_quote_first(const accept_job_t *job, char *to)
{
    const char *at = job->output + strspn(job->output, " -*=\n");

    snprintf(to, ACCEPT_TEXT, "%.*s", (int)strcspn(at, "\n"), *at ? at : "it said nothing");
}
