/* Givers and peers that end, stop, or get signals: nobody waits for ever, and no wait ends too early. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "libgiver.h"
#include "libunit.h"

static void stop(pid_t child)
{
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, NULL, WUNTRACED), child); /* all its threads are stopped */
}

static void kill_and_wait(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The giver has been killed, and has left its socket behind. */
static void unlink_and_end(void)
{
    char path[400];

    giver_path(path, sizeof(path));
    ck_assert_int_eq(unlink(path), 0);
    giver_end();
}

static void end_killed(pid_t child)
{
    kill_and_wait(child);
    unlink_and_end();
}

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

        if (dma_giver_start(giver_dir, NONCE, SECRET, giver_give, &missing, &giver) != DMA_OK ||
            write(ready[1], "r", 1) != 1) {
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

    giver_begin();
    child = spawn_giver();
    ck_assert_int_eq(giver_ask(SECRET, 20, &t), DMA_OK);
    ck_assert_uint_eq(t.n, 20);
    kill_and_wait(child);
    /* Its end is noticed, without waiting. A busy machine may interrupt one attempt, but not all. */
    for (int i = 0; i < 10 && took >= GIVER_SECONDS; i++) {
        took = -dma_now();
        ck_assert_int_eq(giver_ask_once(SECRET, 20, &t), DMA_UNSUPPORTED);
        ck_assert_uint_eq(t.n, 0);
        took += dma_now();
    }
    ck_assert(took < GIVER_SECONDS);
    unlink_and_end();
}
END_TEST

START_TEST(owner_is_stopped)
{
    pid_t child;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = giver_open_files();

    giver_begin();
    child = spawn_giver();
    stop(child);
    ck_assert_int_eq(giver_ask_once(SECRET, 20, &t), DMA_UNSUPPORTED);
    kill(child, SIGCONT);
    ck_assert_int_eq(giver_ask(SECRET, 20, &t), DMA_OK);
    ck_assert_int_eq(giver_open_files(), files);
    end_killed(child);
}
END_TEST

/* A client connects and says nothing. Others wait no longer than the limit. A busy machine may make them wait, but not in all
 * attempts. */
START_TEST(silent_peer)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_status_t status = DMA_UNSUPPORTED;
    dma_giver_t *giver;

    giver_begin();
    giver = giver_run(&missing);
    for (int i = 0; i < TRIES && status != DMA_OK; i++) {
        int silent = giver_connect(0);

        ck_assert_int_ge(silent, 0);
        (void)giver_ask_once(SECRET, 20, &t); /* the giver may give it up at the same moment */
        status = giver_ask_once(SECRET, 20, &t);
        close(silent);
    }
    ck_assert_int_eq(status, DMA_OK);
    dma_giver_stop(giver);
    giver_end();
}
END_TEST

/* ---- signals ---- */

/* A dma_give_t, which the giver's thread calls. */
static int note_mask(void *mask, const dma_wish_t *wish, dma_given_t *part)
{
    (void)wish;
    (void)part;
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return -1;
}

/* The thread gets those that it causes itself, and no other. */
START_TEST(own_signals)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}, others[] = {SIGALRM, SIGINT, SIGUSR1};
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;
    sigset_t mask;

    giver_begin();
    sigemptyset(&mask);
    ck_assert_int_eq(dma_giver_start(giver_dir, NONCE, SECRET, note_mask, &mask, &giver), DMA_OK);
    ck_assert_int_eq(giver_ask(SECRET, 1, &t), DMA_UNSUPPORTED);
    dma_giver_stop(giver);
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        ck_assert(!sigismember(&mask, own[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        ck_assert(sigismember(&mask, others[i]));
    }
    giver_end();
}
END_TEST

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
    return giver_give(arg, wish, part);
}

/* The process gets signals while it waits for an answer. */
START_TEST(signals_while_receiving)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = giver_open_files();
    dma_giver_t *giver;

    giver_begin();
    ck_assert_int_eq(dma_giver_start(giver_dir, NONCE, SECRET, give_slowly, &missing, &giver), DMA_OK);
    set_timer(true);
    ck_assert_int_eq(giver_ask(SECRET, GIVER_MOST + 4, &t), DMA_OK);
    set_timer(false);
    ck_assert_uint_eq(t.n, GIVER_MOST + 4);
    ck_assert_uint_eq(t.wrong, 0);
    dma_giver_stop(giver);
    ck_assert_int_eq(giver_open_files(), files);
    giver_end();
}
END_TEST

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

    giver_begin();
    c.giver = spawn_giver();
    stop(c.giver);
    while (c.n < 500 && (c.fds[c.n] = giver_connect(SOCK_NONBLOCK)) >= 0) {
        c.n++;
    }
    ck_assert_int_lt(c.n, 500);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* not for the other thread */
    ck_assert_int_eq(pthread_create(&thread, NULL, disperse, &c), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    set_timer(true);
    ck_assert_int_eq(giver_ask(SECRET, 20, &t), DMA_OK);
    ck_assert_int_gt(signals, 2); /* it has waited; a busy machine delivers few */
    set_timer(false);
    ck_assert_uint_eq(t.n, 20);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    end_killed(c.giver);
}
END_TEST

/* Signals must not make a wait endless. */
START_TEST(signals_for_ever)
{
    taken_t t = {.refuse_at = UINT64_MAX};
    double began = dma_now();
    pid_t child;

    giver_begin();
    child = spawn_giver();
    stop(child);
    set_timer(true);
    ck_assert_int_eq(giver_ask_once(SECRET, 20, &t), DMA_UNSUPPORTED);
    set_timer(false);
    ck_assert(dma_now() - began > 0.9 * GIVER_SECONDS);
    end_killed(child);
}
END_TEST

/* The giver's process is stopped, and goes on, while its thread waits for what a client asks, and later for room to send. Returns
 * how many messages the client gets. */
static uint64_t answers_over_stops(pid_t child)
{
    dma_wish_t wish = {.secret = SECRET, .base = BASE, .size = 1000 * GIVER_MOST * PART, .id = 9};
    int fd = giver_connect(0);
    char answer[1000];
    uint64_t answers = 0;

    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 2; i++) {
        usleep(200000);
        stop(child);
        kill(child, SIGCONT);
        if (i == 0) {
            usleep(200000);
            (void)!send(fd, &wish, sizeof(wish), MSG_NOSIGNAL);
        }
    }
    /* Without a buffer for them, the kernel closes the files. */
    while (recv(fd, answer, sizeof(answer), 0) > 0) {
        answers++;
    }
    close(fd);
    return answers;
}

START_TEST(giver_goes_on)
{
    uint64_t answers = 0;
    bool again = true;
    pid_t child;

    giver_begin();
    child = spawn_giver();
    for (int i = 0; i < TRIES && again; i++) {
        double began = dma_now();

        answers = answers_over_stops(child);
        again = answers != 1000 && giver_may_be_given_up(began);
    }
    ck_assert_uint_eq(answers, 1000);
    end_killed(child);
}
END_TEST

/* The application may open no more files. The thread of the giver waits for one, and ends all the same. */
START_TEST(stops_without_files)
{
    uint64_t missing = UINT64_MAX;
    struct rlimit limit;
    dma_giver_t *giver;
    int fd;

    giver_begin();
    giver = giver_run(&missing);
    fd = giver_connect(0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}), 0);
    close(fd); /* so that it goes back to accept */
    usleep(100000);
    dma_giver_stop(giver);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    giver_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("giver_waits");

    unit_test(s, owner_has_died, LIMIT);
    unit_test(s, owner_is_stopped, LIMIT);
    unit_test(s, silent_peer, LIMIT);
    unit_test(s, own_signals, LIMIT);
    unit_test(s, signals_while_receiving, LIMIT);
    unit_test(s, signals_while_connecting, LIMIT);
    unit_test(s, signals_for_ever, LIMIT);
    unit_test(s, giver_goes_on, LIMIT);
    unit_test(s, stops_without_files, LIMIT);
    return unit_main(s);
}
