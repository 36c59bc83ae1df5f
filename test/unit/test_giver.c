/* File descriptors that go from process to process: all of them arrive, none stays open, and no peer can block a process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "libunit.h"
#include "node/giver.h"

#define NONCE  UINT64_C(0x1234)
#define SECRET UINT64_C(0x5678)
#define BASE   UINT64_C(0x7f0000000000)
#define PART   UINT64_C(4096)

static char dir[300];

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/dma-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end(void)
{
    ck_assert_int_eq(rmdir(dir), 0);
}

/* The giver has been killed, and has left its socket behind. */
static void end_killed(void)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/coll_dma.%016llx.fds", dir, (unsigned long long)NONCE);
    ck_assert_int_eq(unlink(path), 0);
    end();
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (!d) {
        return 0; /* not even one more */
    }
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

/* ---- the giver: parts contain their number. `arg`: the first part that does not exist ---- */

static int give(void *arg, const dma_wish_t *wish, dma_given_t *part)
{
    uint64_t i = (part->addr - wish->base) / PART;
    int fd;

    if (i == *(uint64_t *)arg) {
        return -1;
    }
    fd = memfd_create("part", MFD_CLOEXEC);
    part->bytes = PART;
    if (write(fd, &i, sizeof(i)) != sizeof(i)) {
        close(fd);
        return -1;
    }
    return fd;
}

static dma_giver_t *start(uint64_t *missing)
{
    dma_giver_t *giver;

    ck_assert_int_eq(dma_giver_start(dir, NONCE, SECRET, give, missing, &giver), DMA_OK);
    return giver;
}

/* ---- the process that asks ---- */

typedef struct taken {
    uint64_t n, wrong;
    uint64_t refuse_at; /* it fails at this part */
    int most;           /* the files that were open at once */
} taken_t;

static dma_status_t take(void *arg, int fd, const dma_given_t *part)
{
    taken_t *t = arg;
    uint64_t number = 0;
    int files = open_files();

    t->most = files > t->most ? files : t->most;
    if (t->n == t->refuse_at) {
        return DMA_ERR_NOMEM;
    }
    t->wrong += pread(fd, &number, sizeof(number), 0) != sizeof(number) || number != t->n ||
                part->addr != BASE + t->n * PART || part->bytes != PART;
    t->n++;
    return DMA_OK;
}

static dma_status_t ask(uint64_t secret, uint64_t parts, taken_t *t)
{
    dma_wish_t wish = {.secret = secret, .base = BASE, .size = parts * PART, .id = 9};
    const char *why;

    *t = (taken_t){.refuse_at = t->refuse_at};
    return dma_giver_ask(dir, NONCE, &wish, take, t, &why);
}

static const uint64_t counts[] = {1, GIVER_MOST - 1, GIVER_MOST, GIVER_MOST + 1, 10 * GIVER_MOST + 3};

START_TEST(all_parts_arrive)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = open_files(), alive;
    dma_giver_t *giver;

    begin();
    giver = start(&missing);
    alive = open_files();
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        ck_assert_int_eq(ask(SECRET, counts[i], &t), DMA_OK);
        ck_assert_uint_eq(t.n, counts[i]);
        ck_assert_uint_eq(t.wrong, 0);
        /* both sides are this process: files taken; files under way and being opened; the connection */
        ck_assert_int_le(t.most, alive + 2 * GIVER_MOST + 4);
    }
    dma_giver_stop(giver);
    ck_assert_int_eq(open_files(), files);
    end();
}
END_TEST

START_TEST(rounds)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = open_files();
    dma_giver_t *giver;

    begin();
    giver = start(&missing);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
        ck_assert_uint_eq(t.wrong, 0);
    }
    dma_giver_stop(giver);
    ck_assert_int_eq(open_files(), files);
    end();
}
END_TEST

START_TEST(refusals)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = open_files();
    dma_giver_t *giver;

    begin();
    ck_assert_int_eq(ask(SECRET, 3, &t), DMA_UNSUPPORTED); /* there is no giver */
    giver = start(&missing);
    ck_assert_int_eq(ask(SECRET + 1, 3, &t), DMA_UNSUPPORTED);
    ck_assert_uint_eq(t.n, 0);
    for (missing = 0; missing < 40; missing += 13) { /* one part does not exist any more */
        ck_assert_int_eq(ask(SECRET, 40, &t), DMA_UNSUPPORTED);
        ck_assert_uint_le(t.n, missing);
        ck_assert_uint_eq(t.wrong, 0);
    }
    missing = UINT64_MAX;
    t.refuse_at = 18; /* the rest of the message is closed */
    ck_assert_int_eq(ask(SECRET, 40, &t), DMA_ERR_NOMEM);
    ck_assert_uint_eq(t.n, 18);
    t.refuse_at = UINT64_MAX;
    ck_assert_int_eq(ask(SECRET, 40, &t), DMA_OK); /* asking goes on working */
    dma_giver_stop(giver);
    ck_assert_int_eq(open_files(), files);
    end();
}
END_TEST

/* The path of the socket is longer than an address can be. */
START_TEST(long_path)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;
    char top[300];

    begin();
    snprintf(top, sizeof(top), "%s", dir);
    snprintf(dir, sizeof(dir), "%.40s/%0200d", top, 7);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    giver = start(&missing);
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
    ck_assert_uint_eq(t.n, 20);
    dma_giver_stop(giver);
    ck_assert_int_eq(rmdir(dir), 0);
    snprintf(dir, sizeof(dir), "%s", top);
    end();
}
END_TEST

START_TEST(no_such_directory)
{
    uint64_t missing = UINT64_MAX;
    dma_giver_t *giver;
    int files = open_files();

    ck_assert_int_eq(dma_giver_start("/nowhere/at/all", NONCE, SECRET, give, &missing, &giver), DMA_UNSUPPORTED);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(open_files(), files);
}
END_TEST

/* The process that asks may open few more files. */
START_TEST(no_room_for_files)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    pid_t child;
    int status, files;

    begin();
    ck_assert_int_ge(child = fork(), 0);
    if (!child) {
        struct rlimit limit = {.rlim_cur = 8, .rlim_max = 8};

        usleep(100000);
        for (int fd = 3; fd < 100; fd++) {
            close(fd);
        }
        setrlimit(RLIMIT_NOFILE, &limit);
        files = open_files();
        _exit(ask(SECRET, 40, &t) == DMA_UNSUPPORTED && !t.wrong && open_files() == files ? 0 : 1);
    }
    {
        dma_giver_t *giver = start(&missing);

        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(ask(SECRET, 40, &t), DMA_OK);
        dma_giver_stop(giver);
    }
    end();
}
END_TEST

/* ---- processes that end or stop ---- */

/* A process that gives until a signal ends it. */
static pid_t spawn_giver(void)
{
    int ready[2];
    pid_t child;
    char c;

    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_ge(child = fork(), 0);
    if (!child) {
        uint64_t missing = UINT64_MAX;
        dma_giver_t *giver;

        if (dma_giver_start(dir, NONCE, SECRET, give, &missing, &giver) != DMA_OK || write(ready[1], "r", 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return child;
}

START_TEST(owner_has_died)
{
    pid_t child;
    taken_t t = {.refuse_at = UINT64_MAX};
    double took = GIVER_SECONDS;

    begin();
    child = spawn_giver();
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
    ck_assert_uint_eq(t.n, 20);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    /* Its end is noticed, without waiting. A busy machine may interrupt one attempt, but not all. */
    for (int i = 0; i < 10 && took >= GIVER_SECONDS; i++) {
        took = -dma_now();
        ck_assert_int_eq(ask(SECRET, 20, &t), DMA_UNSUPPORTED);
        ck_assert_uint_eq(t.n, 0);
        took += dma_now();
    }
    ck_assert(took < GIVER_SECONDS);
    end_killed();
}
END_TEST

START_TEST(owner_is_stopped)
{
    pid_t child;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = open_files();

    begin();
    child = spawn_giver();
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, NULL, WUNTRACED), child); /* all its threads are stopped */
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_UNSUPPORTED);
    kill(child, SIGCONT);
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(open_files(), files);
    end_killed();
}
END_TEST

/* A client connects and says nothing. Others wait no longer than the limit. */
START_TEST(silent_peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int silent = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;

    begin();
    giver = start(&missing);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.40s/coll_dma.%016llx.fds", dir, (unsigned long long)NONCE);
    ck_assert_int_eq(connect(silent, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)ask(SECRET, 20, &t); /* the giver may give it up at the same moment */
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
    close(silent);
    dma_giver_stop(giver);
    end();
}
END_TEST

/* ---- signals ---- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* A signal every millisecond, or none. Its handler does not ask for calls to be restarted. */
static void set_timer(bool on)
{
    struct itimerval every = {.it_interval = {.tv_usec = on ? 1000 : 0}, .it_value = {.tv_usec = on ? 1000 : 0}};
    struct sigaction action = {.sa_handler = count_signal};

    signals = 0;
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static int give_slowly(void *arg, const dma_wish_t *wish, dma_given_t *part)
{
    usleep(20000);
    return give(arg, wish, part);
}

/* The process gets signals while it waits for an answer. */
START_TEST(signals_while_receiving)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = open_files();
    dma_giver_t *giver;

    begin();
    ck_assert_int_eq(dma_giver_start(dir, NONCE, SECRET, give_slowly, &missing, &giver), DMA_OK);
    set_timer(true);
    ck_assert_int_eq(ask(SECRET, GIVER_MOST + 4, &t), DMA_OK);
    set_timer(false);
    ck_assert_uint_eq(t.n, GIVER_MOST + 4);
    ck_assert_uint_eq(t.wrong, 0);
    dma_giver_stop(giver);
    ck_assert_int_eq(open_files(), files);
    end();
}
END_TEST

/* A connection to the giver of `dir` that may be refused: -1. */
static int connect_here(int flags)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%.40s/coll_dma.%016llx.fds", dir, (unsigned long long)NONCE);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return -1;
    }
    return fd;
}

typedef struct crowd {
    pid_t giver;
    int fds[500], n; /* connections that fill its backlog */
} crowd_t;

/* Makes room after a while. */
static void *disperse(void *arg)
{
    crowd_t *c = arg;

    usleep(300000);
    for (int i = 0; i < c->n; i++) {
        close(c->fds[i]);
    }
    kill(c->giver, SIGCONT);
    return NULL;
}

/* The process gets signals while it waits for room to connect. */
START_TEST(signals_while_connecting)
{
    taken_t t = {.refuse_at = UINT64_MAX};
    crowd_t c = {.n = 0};
    pthread_t thread;
    sigset_t alarm;

    begin();
    c.giver = spawn_giver();
    kill(c.giver, SIGSTOP);
    ck_assert_int_eq(waitpid(c.giver, NULL, WUNTRACED), c.giver);
    while (c.n < 500 && (c.fds[c.n] = connect_here(SOCK_NONBLOCK)) >= 0) {
        c.n++;
    }
    ck_assert_int_lt(c.n, 500);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* not for the other thread */
    ck_assert_int_eq(pthread_create(&thread, NULL, disperse, &c), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    set_timer(true);
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_OK);
    ck_assert_int_gt(signals, 2); /* it has waited; a busy machine delivers few */
    set_timer(false);
    ck_assert_uint_eq(t.n, 20);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    kill(c.giver, SIGKILL);
    waitpid(c.giver, NULL, 0);
    end_killed();
}
END_TEST

/* Signals must not make a wait endless. */
START_TEST(signals_for_ever)
{
    taken_t t = {.refuse_at = UINT64_MAX};
    double began = dma_now();
    pid_t child;

    begin();
    child = spawn_giver();
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, NULL, WUNTRACED), child);
    set_timer(true);
    ck_assert_int_eq(ask(SECRET, 20, &t), DMA_UNSUPPORTED);
    set_timer(false);
    ck_assert(dma_now() - began > 0.9 * GIVER_SECONDS);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    end_killed();
}
END_TEST

/* The giver's process is stopped, and goes on, while its thread waits for what a client asks, and later for room to send. */
START_TEST(giver_goes_on)
{
    dma_wish_t wish = {.secret = SECRET, .base = BASE, .size = 1000 * GIVER_MOST * PART, .id = 9};
    char answer[1000];
    uint64_t answers = 0;
    pid_t child;
    int fd;

    begin();
    child = spawn_giver();
    fd = connect_here(0);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 2; i++) {
        usleep(200000);
        kill(child, SIGSTOP);
        ck_assert_int_eq(waitpid(child, NULL, WUNTRACED), child);
        kill(child, SIGCONT);
        if (i == 0) {
            usleep(200000);
            ck_assert_int_eq(send(fd, &wish, sizeof(wish), MSG_NOSIGNAL), sizeof(wish));
        }
    }
    /* Without a buffer for them, the kernel closes the files. */
    while (recv(fd, answer, sizeof(answer), 0) > 0) {
        answers++;
    }
    ck_assert_uint_eq(answers, 1000);
    close(fd);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    end_killed();
}
END_TEST

/* What a process gets that asks without checking who gives. -1: it cannot connect. */
static ssize_t ask_blindly(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    dma_wish_t wish = {.secret = SECRET, .base = BASE, .size = 3 * PART, .id = 9};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char answer[1000];
    ssize_t got;

    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        return -1;
    }
    got = send(fd, &wish, sizeof(wish), MSG_NOSIGNAL) < 0 ? 0 : recv(fd, answer, sizeof(answer), 0);
    return got < 0 ? 0 : got; /* the other side may have closed it already */
}

/* The process of another user gets no answer, even if it knows the secret and can reach the socket. */
START_TEST(another_user)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;
    char path[400];
    pid_t child;
    int status;

    if (geteuid() != 0) {
        return; /* there is no other user to switch to */
    }
    begin();
    giver = start(&missing);
    snprintf(path, sizeof(path), "%s/coll_dma.%016llx.fds", dir, (unsigned long long)NONCE);
    ck_assert_int_eq(chmod(dir, 0777), 0);
    for (int open = 0; open < 2; open++) {
        ck_assert_int_eq(chmod(path, open ? 0777 : 0600), 0);
        ck_assert_int_ge(child = fork(), 0);
        if (!child) {
            _exit(setuid(65534) || ask(SECRET, 3, &t) != DMA_UNSUPPORTED || t.n || ask_blindly(path) > 0 ||
                  (ask_blindly(path) < 0) == open);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_gt(ask_blindly(path), 0);
    ck_assert_int_eq(ask(SECRET, 3, &t), DMA_OK);
    dma_giver_stop(giver);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("giver");

    unit_test(s, all_parts_arrive, 20);
    unit_test(s, rounds, 60);
    unit_test(s, refusals, 20);
    unit_test(s, long_path, 20);
    unit_test(s, no_such_directory, 20);
    unit_test(s, no_room_for_files, 20);
    unit_test(s, owner_has_died, 20);
    unit_test(s, owner_is_stopped, 30);
    unit_test(s, silent_peer, 30);
    unit_test(s, signals_while_receiving, 20);
    unit_test(s, signals_while_connecting, 30);
    unit_test(s, signals_for_ever, 30);
    unit_test(s, giver_goes_on, 30);
    unit_test(s, another_user, 20);
    return unit_main(s);
}
