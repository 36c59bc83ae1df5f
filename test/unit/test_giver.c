/* File descriptors that go from process to process: all of them arrive, none stays open, and strangers get none. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libgiver.h"
#include "libunit.h"

static const uint64_t counts[] = {1, GIVER_MOST - 1, GIVER_MOST, GIVER_MOST + 1, 10 * GIVER_MOST + 3};

START_TEST(all_parts_arrive)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = giver_open_files(), alive;
    dma_giver_t *giver;

    giver_begin();
    giver = giver_run(&missing);
    alive = giver_open_files();
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        ck_assert_int_eq(giver_ask(SECRET, counts[i], &t), DMA_OK);
        ck_assert_uint_eq(t.n, counts[i]);
        ck_assert_uint_eq(t.wrong, 0);
        /* both sides are this process: files taken; files under way and being opened; the connection */
        ck_assert_int_le(t.most, alive + 2 * GIVER_MOST + 4);
    }
    dma_giver_stop(giver);
    ck_assert_int_eq(giver_open_files(), files);
    giver_end();
}
END_TEST

START_TEST(rounds)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = giver_open_files();
    dma_giver_t *giver;

    giver_begin();
    giver = giver_run(&missing);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(giver_ask(SECRET, 20, &t), DMA_OK);
        ck_assert_uint_eq(t.wrong, 0);
    }
    dma_giver_stop(giver);
    ck_assert_int_eq(giver_open_files(), files);
    giver_end();
}
END_TEST

START_TEST(refusals)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    int files = giver_open_files();
    dma_giver_t *giver;

    giver_begin();
    ck_assert_int_eq(giver_ask(SECRET, 3, &t), DMA_UNSUPPORTED); /* there is no giver */
    giver = giver_run(&missing);
    ck_assert_int_eq(giver_ask(SECRET + 1, 3, &t), DMA_UNSUPPORTED);
    ck_assert_uint_eq(t.n, 0);
    for (missing = 0; missing < 40; missing += 13) { /* one part does not exist any more */
        ck_assert_int_eq(giver_ask(SECRET, 40, &t), DMA_UNSUPPORTED);
        ck_assert_uint_le(t.n, missing);
        ck_assert_uint_eq(t.wrong, 0);
    }
    missing = UINT64_MAX;
    t.refuse_at = 18; /* the rest of the message is closed */
    ck_assert_int_eq(giver_ask(SECRET, 40, &t), DMA_ERR_NOMEM);
    ck_assert_uint_eq(t.n, 18);
    t.refuse_at = UINT64_MAX;
    ck_assert_int_eq(giver_ask(SECRET, 40, &t), DMA_OK); /* asking goes on working */
    dma_giver_stop(giver);
    ck_assert_int_eq(giver_open_files(), files);
    giver_end();
}
END_TEST

/* The path of the socket is longer than an address can be. */
START_TEST(long_path)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;
    char top[300];

    giver_begin();
    snprintf(top, sizeof(top), "%s", giver_dir);
    snprintf(giver_dir, sizeof(giver_dir), "%.40s/%0200d", top, 7);
    ck_assert_int_eq(mkdir(giver_dir, 0700), 0);
    giver = giver_run(&missing);
    ck_assert_int_eq(giver_ask(SECRET, 20, &t), DMA_OK);
    ck_assert_uint_eq(t.n, 20);
    dma_giver_stop(giver);
    ck_assert_int_eq(rmdir(giver_dir), 0);
    snprintf(giver_dir, sizeof(giver_dir), "%s", top);
    giver_end();
}
END_TEST

START_TEST(no_such_directory)
{
    uint64_t missing = UINT64_MAX;
    dma_giver_t *giver;
    int files = giver_open_files();

    ck_assert_int_eq(dma_giver_start("/nowhere/at/all", NONCE, SECRET, giver_give, &missing, &giver), DMA_UNSUPPORTED);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(giver_open_files(), files);
}
END_TEST

/* The process that asks may open few more files. */
START_TEST(no_room_for_files)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    pid_t child;
    int status, files;

    giver_begin();
    ck_assert_int_ge(child = fork(), 0);
    if (!child) {
        struct rlimit limit = {.rlim_cur = 8, .rlim_max = 8};

        usleep(100000);
        for (int fd = 3; fd < 100; fd++) {
            close(fd);
        }
        setrlimit(RLIMIT_NOFILE, &limit);
        files = giver_open_files();
        _exit(giver_ask(SECRET, 40, &t) == DMA_UNSUPPORTED && !t.wrong && giver_open_files() == files ? 0 : 1);
    }
    {
        dma_giver_t *giver = giver_run(&missing);

        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(giver_ask(SECRET, 40, &t), DMA_OK);
        dma_giver_stop(giver);
    }
    giver_end();
}
END_TEST

/* What a process gets that asks without checking who gives. -1: it cannot connect. */
static ssize_t ask_blindly(void)
{
    dma_wish_t wish = {.secret = SECRET, .base = BASE, .size = 3 * PART, .id = 9};
    int fd = giver_connect(0);
    char answer[1000];
    ssize_t got;

    if (fd < 0) {
        return -1;
    }
    got = send(fd, &wish, sizeof(wish), MSG_NOSIGNAL) < 0 ? 0 : recv(fd, answer, sizeof(answer), 0);
    close(fd);
    return got < 0 ? 0 : got; /* the other side may have closed it already */
}

/* The process of another user gets no answer, even if it knows the secret and can reach the socket. */
START_TEST(another_user)
{
    uint64_t missing = UINT64_MAX;
    taken_t t = {.refuse_at = UINT64_MAX};
    dma_giver_t *giver;
    char path[400];
    ssize_t got = 0;
    pid_t child;
    int status;

    if (geteuid() != 0) {
        return; /* there is no other user to switch to */
    }
    giver_begin();
    giver = giver_run(&missing);
    giver_path(path, sizeof(path));
    ck_assert_int_eq(chmod(giver_dir, 0777), 0);
    for (int open = 0; open < 2; open++) {
        ck_assert_int_eq(chmod(path, open ? 0777 : 0600), 0);
        ck_assert_int_ge(child = fork(), 0);
        if (!child) {
            _exit(setuid(65534) || giver_ask(SECRET, 3, &t) != DMA_UNSUPPORTED || t.n || ask_blindly() > 0 ||
                  (ask_blindly() < 0) == open);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    for (int i = 0; i < TRIES && got <= 0; i++) {
        got = ask_blindly();
    }
    ck_assert_int_gt(got, 0);
    ck_assert_int_eq(giver_ask(SECRET, 3, &t), DMA_OK);
    dma_giver_stop(giver);
    giver_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("giver");

    unit_test(s, all_parts_arrive, LIMIT);
    unit_test(s, rounds, LIMIT);
    unit_test(s, refusals, LIMIT);
    unit_test(s, long_path, LIMIT);
    unit_test(s, no_such_directory, LIMIT);
    unit_test(s, no_room_for_files, LIMIT);
    unit_test(s, another_user, LIMIT);
    return unit_main(s);
}
