/* See libgiver.h. */
#include "libgiver.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dma/clock.h"

char giver_dir[300];

void giver_begin(void)
{
    snprintf(giver_dir, sizeof(giver_dir), "/tmp/dma-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(giver_dir));
}

void giver_end(void)
{
    ck_assert_int_eq(rmdir(giver_dir), 0);
}

void giver_path(char *path, size_t size)
{
    snprintf(path, size, "%s/coll_dma.%016llx.fds", giver_dir, (unsigned long long)NONCE);
}

int giver_connect(int flags)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    char path[400];

    giver_path(path, sizeof(path));
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return -1;
    }
    return fd;
}

int giver_open_files(void)
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

int giver_give(void *arg, const dma_wish_t *wish, dma_given_t *part)
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

dma_giver_t *giver_run(uint64_t *missing)
{
    dma_giver_t *giver;

    ck_assert_int_eq(dma_giver_start(giver_dir, NONCE, SECRET, giver_give, missing, &giver), DMA_OK);
    return giver;
}

static dma_status_t take(void *arg, int fd, const dma_given_t *part)
{
    taken_t *t = arg;
    uint64_t number = 0;
    int files = giver_open_files();

    t->most = files > t->most ? files : t->most;
    if (t->n == t->refuse_at) {
        return DMA_ERR_NOMEM;
    }
    t->wrong += pread(fd, &number, sizeof(number), 0) != sizeof(number) || number != t->n ||
                part->addr != BASE + t->n * PART || part->bytes != PART;
    t->n++;
    return DMA_OK;
}

dma_status_t giver_ask_once(uint64_t secret, uint64_t parts, taken_t *t)
{
    dma_wish_t wish = {.secret = secret, .base = BASE, .size = parts * PART, .id = 9};
    const char *why;

    *t = (taken_t){.refuse_at = t->refuse_at};
    return dma_giver_ask(giver_dir, NONCE, &wish, take, t, &why);
}

bool giver_may_be_given_up(double began)
{
    return dma_now() - began > 0.9 * GIVER_SECONDS;
}

dma_status_t giver_ask(uint64_t secret, uint64_t parts, taken_t *t)
{
    dma_status_t status = DMA_UNSUPPORTED;
    bool again = true;

    for (int i = 0; i < TRIES && again; i++) {
        double began = dma_now();

        status = giver_ask_once(secret, parts, t);
        again = status == DMA_UNSUPPORTED && giver_may_be_given_up(began);
    }
    return status;
}
