/* Arenas, mappings and windows. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libthreads.h"
#include "libunit.h"
#include "node/cross.h"
#include "node/window.h"

#define MIB (1u << 20)

static dma_arena_t *make(dma_arena_kind_t kind, const char *dir)
{
    const char *what = NULL;
    dma_arena_t *arena = NULL;

    ck_assert_int_eq(dma_arena_create(kind, MIB, dir, &arena, &what), DMA_OK);
    return arena;
}

START_TEST(blocks_come_back_when_the_last_reader_left)
{
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    char *a = dma_arena_alloc(arena, 1000, 1000, 2), *b = dma_arena_alloc(arena, 5000, 0, 0), *c;

    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_uint_eq((uintptr_t)a % DMA_ARENA_ALIGN, 0);
    ck_assert(b >= a + 1000);
    dma_arena_retire(arena, a);
    ck_assert_uint_eq(dma_arena_used(arena), 1024 + 5120);
    dma_block_leave(a);
    ck_assert_uint_eq(dma_arena_used(arena), 1024 + 5120);
    dma_block_leave(a);
    ck_assert_uint_eq(dma_arena_used(arena), 5120);
    c = dma_arena_alloc(arena, 1024, 1024, 1);
    ck_assert_ptr_eq(c, a); /* first fit */
    for (int i = (int)sizeof(dma_block_head_t); i < 1024; i++) {
        ck_assert_int_eq(c[i], 0);
    }
    dma_arena_retire(arena, b);
    ck_assert_uint_eq(dma_arena_used(arena), 1024); /* nobody has ever read b */
    dma_arena_destroy(arena);
}
END_TEST

START_TEST(full_arena_says_so)
{
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    char *a = dma_arena_alloc(arena, MIB / 2, 0, 0), *b;

    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(dma_arena_alloc(arena, MIB / 2, 0, 0)); /* the head takes some bytes */
    ck_assert_ptr_null(dma_arena_alloc(arena, SIZE_MAX - 4096, 0, 0));
    b = dma_arena_alloc(arena, MIB / 2 - DMA_ARENA_ALIGN, 0, 0);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_null(dma_arena_alloc(arena, 1, 0, 0));
    dma_arena_retire(arena, a);
    ck_assert_ptr_eq(dma_arena_alloc(arena, 1, 0, 0), a);
    dma_arena_destroy(arena);
}
END_TEST

/* An arena of 1 MiB where files may have at most this number of bytes. The file of Check is limited, too. */
static dma_status_t make_limited(rlim_t most, dma_arena_t **arena, const char **what)
{
    struct rlimit before, limit;
    dma_status_t status;
    int saved;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_FSIZE, &limit);
    status = dma_arena_create(DMA_ARENA_MEMFD, MIB, NULL, arena, what);
    saved = errno;
    setrlimit(RLIMIT_FSIZE, &before);
    errno = saved;
    return status;
}

/* Shared memory larger than the limit of files ended the process with a signal. */
START_TEST(files_may_not_be_large)
{
    const char *what = NULL;
    dma_arena_t *arena;

    ck_assert_int_eq(make_limited(MIB / 4 + 1, &arena, &what), DMA_OK);
    ck_assert_uint_eq(dma_arena_bytes(arena), MIB / 4);
    ck_assert_ptr_null(dma_arena_alloc(arena, MIB / 4, 0, 0));
    ck_assert_ptr_nonnull(dma_arena_alloc(arena, MIB / 4 - DMA_ARENA_ALIGN, 0, 0));
    dma_arena_destroy(arena);
    ck_assert_int_eq(make_limited(100, &arena, &what), DMA_ERR_NOMEM);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_str_eq(what, "the limit of a file's size");
}
END_TEST

START_TEST(memory_is_taken_as_blocks_are)
{
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    struct stat st;

    ck_assert_int_eq(fstat(dma_arena_fd(arena), &st), 0);
    ck_assert_int_eq(st.st_size, MIB);
    ck_assert_int_le(st.st_blocks * 512, 8192);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    dma_arena_alloc(arena, 100000, 0, 0);
    ck_assert_int_eq(fstat(dma_arena_fd(arena), &st), 0);
    ck_assert_int_ge(st.st_blocks * 512, 100000);
    dma_arena_destroy(arena);
}
END_TEST

/* As kernels once did where a timer runs: an allocation that takes long is interrupted and undone. */
static size_t uninterrupted, left = SIZE_MAX; /* bytes: allocated at once; that the machine has */

int __real_posix_fallocate(int fd, off_t at, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t at, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t at, off_t bytes)
{
    if (uninterrupted && (size_t)bytes > uninterrupted) {
        return EINTR;
    }
    if ((size_t)bytes > left) {
        return ENOSPC;
    }
    left -= (size_t)bytes;
    return __real_posix_fallocate(fd, at, bytes);
}

START_TEST(memory_comes_in_pieces)
{
    const char *what;
    dma_arena_t *arena;
    struct stat file;

    uninterrupted = MIB / 2;
    ck_assert_int_eq(dma_arena_create(DMA_ARENA_MEMFD, 8 * MIB, NULL, &arena, &what), DMA_OK);
    ck_assert_ptr_nonnull(dma_arena_alloc(arena, 2 * MIB, 0, 0));
    /* too little memory is left to others */
    left = MIB;
    ck_assert_ptr_null(dma_arena_alloc(arena, 4 * MIB, 0, 0));
    ck_assert_int_eq(fstat(dma_arena_fd(arena), &file), 0);
    ck_assert_uint_le((uint64_t)file.st_blocks * 512, 2 * MIB + MIB / 8);
    left = SIZE_MAX;
    ck_assert_ptr_nonnull(dma_arena_alloc(arena, 4 * MIB, 0, 0));
    dma_arena_destroy(arena);
}
END_TEST

START_TEST(file_arena_leaves_nothing)
{
    char dir[] = "/tmp/dma-unit-XXXXXX", path[256];
    dma_arena_t *arena;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    arena = make(DMA_ARENA_FILE, dir);
    snprintf(path, sizeof(path), "%s", dma_arena_path(arena));
    ck_assert_int_eq(access(path, F_OK), 0);
    dma_arena_unlink(arena);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_str_eq(dma_arena_path(arena), "");
    ck_assert_ptr_nonnull(dma_arena_alloc(arena, 100, 0, 0));
    dma_arena_destroy(arena);
    arena = make(DMA_ARENA_FILE, dir); /* and when it was never unlinked */
    dma_arena_destroy(arena);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(no_directory_for_the_file)
{
    const char *what = NULL;
    dma_arena_t *arena;

    ck_assert_int_ne(dma_arena_create(DMA_ARENA_FILE, MIB, NULL, &arena, &what), DMA_OK);
    ck_assert_ptr_nonnull(what);
    ck_assert_int_ne(dma_arena_create(DMA_ARENA_FILE, MIB, "/nonexistent", &arena, &what), DMA_OK);
}
END_TEST

/* ---- another process ---- */

/* A child that makes an arena, reports it, and lives until it is killed. */
static pid_t child_with_arena(dma_arena_id_t *card)
{
    int fds[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails */
        strcpy(dma_arena_alloc(arena, 64, 0, 1) + sizeof(dma_block_head_t), "hello");
        dma_arena_identify(arena, card);
        if (write(fds[1], card, sizeof(*card)) != sizeof(*card)) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], card, sizeof(*card)), sizeof(*card));
    close(fds[0]);
    return pid;
}

/* Mappings of arenas in this process, its own arenas included. */
static unsigned mapped_arenas(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned n = 0;
    char line[512];

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps)) {
        n += strstr(line, "/memfd:coll_dma") != NULL;
    }
    fclose(maps);
    return n;
}

START_TEST(mapping_of_another_process)
{
    dma_mapping_t *m, *again, *next;
    dma_arena_id_t card, other;
    dma_reason_t why;
    pid_t pid = child_with_arena(&card), pid2;

    ck_assert_int_eq(dma_registry_get(&card, &m, &why), DMA_OK);
    ck_assert_int_eq(m->pid, pid);
    ck_assert_str_eq(m->base + DMA_ARENA_ALIGN + sizeof(dma_block_head_t), "hello");
    ck_assert_int_eq(dma_registry_get(&card, &again, &why), DMA_OK);
    ck_assert_ptr_eq(m, again); /* once per process */
    ck_assert_uint_eq(mapped_arenas(), 1);
    ck_assert(dma_mapping_alive(m));

    kill(pid, SIGSTOP);
    ck_assert(dma_mapping_alive(m)); /* a late process is not a dead process */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert(!dma_mapping_alive(m));

    /* what the process left is readable until nobody uses it; the next mapping after that frees it */
    ck_assert_str_eq(m->base + DMA_ARENA_ALIGN + sizeof(dma_block_head_t), "hello");
    pid2 = child_with_arena(&other);
    ck_assert_int_eq(dma_registry_get(&other, &next, &why), DMA_OK);
    ck_assert_uint_eq(mapped_arenas(), 2);
    dma_registry_put(m);
    dma_registry_put(again);
    dma_registry_put(next);
    kill(pid2, SIGKILL);
    waitpid(pid2, NULL, 0);
    pid = child_with_arena(&card);
    ck_assert_int_eq(dma_registry_get(&card, &m, &why), DMA_OK);
    ck_assert_uint_eq(mapped_arenas(), 1);
    dma_registry_put(m);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(cards_are_checked)
{
    dma_arena_id_t card, bad;
    dma_mapping_t *m;
    dma_reason_t why;
    pid_t pid = child_with_arena(&card);

    bad = card;
    bad.nonce ^= 1; /* a file of the right size that does not belong to the peer */
    ck_assert_int_eq(dma_registry_get(&bad, &m, &why), DMA_UNSUPPORTED);
    ck_assert_int_eq(why, DMA_REASON_peer_memory_closed);
    bad = card;
    bad.bytes *= 2; /* would be a SIGBUS */
    bad.nonce ^= 2;
    ck_assert_int_eq(dma_registry_get(&bad, &m, &why), DMA_UNSUPPORTED);
    ck_assert_int_eq(why, DMA_REASON_peer_memory_closed);
    bad = card;
    bad.pid_namespace++; /* the same number in another namespace is another process */
    ck_assert_int_eq(dma_registry_get(&bad, &m, &why), DMA_UNSUPPORTED);
    ck_assert_int_eq(why, DMA_REASON_peer_memory_closed);
    bad = card;
    snprintf(bad.path, sizeof(bad.path), "/nonexistent");
    ck_assert_int_eq(dma_registry_get(&bad, &m, &why), DMA_UNSUPPORTED);
    ck_assert_int_eq(why, DMA_REASON_peer_memory_closed);
    bad = card;
    bad.fd = 1; /* the child's standard output */
    ck_assert_int_eq(dma_registry_get(&bad, &m, &why), DMA_UNSUPPORTED);
    ck_assert_uint_eq(mapped_arenas(), 0);
#ifndef __SANITIZE_ADDRESS__ /* which itself needs more memory */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = 4096, .rlim_max = RLIM_INFINITY}), 0);
    ck_assert_int_eq(dma_registry_get(&card, &m, &why), DMA_UNSUPPORTED);
    ck_assert_int_eq(why, DMA_REASON_arena_system);
#endif
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(cross_memory_probe)
{
    static uint64_t value;
    int fds[2];
    pid_t pid;
    char byte;

    fail_cross_after = -1;
    value = dma_random64();
    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        byte = write(fds[1], "x", 1) == 1;
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(fds[0], &byte, 1), 1);
    ck_assert(dma_cross_probe(pid, (uint64_t)(uintptr_t)&value, value));
    ck_assert(!dma_cross_probe(pid, (uint64_t)(uintptr_t)&value, value + 1));
    ck_assert(!dma_cross_probe(pid, 16, value));
    ck_assert(!dma_cross_probe(0, (uint64_t)(uintptr_t)&value, value));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert(!dma_cross_probe(pid, (uint64_t)(uintptr_t)&value, value));
}
END_TEST

/* ---- windows ---- */

START_TEST(regions_of_a_block_do_not_overlap)
{
    dma_geom_t geom = {.ring_depth = 8, .slot_bytes = 512, .chunk_bytes = 4096, .chunk_depth = 4};

    for (int n = 1; n <= 300; n += 13) {
        dma_block_layout_t l = dma_block_layout(&geom, n);

        ck_assert_uint_ge(l.ring, offsetof(dma_block_t, pairs) + (size_t)n * sizeof(dma_pair_line_t));
        ck_assert_uint_ge(l.slots, l.ring + 8 * sizeof(dma_desc_t));
        ck_assert_uint_eq(l.ring % 128, 0);
        ck_assert_uint_ge(l.chunks, l.slots + 8 * 512);
        ck_assert_uint_ge(l.bytes, l.chunks + 4 * 4096);
        ck_assert_uint_eq(l.slots % 64, 0);
        ck_assert_uint_eq(l.chunks % 64, 0);
    }
}
END_TEST

/* Nothing in a new block looks like a call, from the first call on, also where sequence numbers wrap. */
START_TEST(a_new_block_has_no_calls)
{
    static const uint64_t firsts[] = {1, 7, UINT32_MAX - 1, (uint64_t)UINT32_MAX + 3};
    dma_geom_t geom = {.ring_depth = 4, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    uint64_t first = firsts[_i];
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    dma_block_t *block = dma_window_block(arena, &geom, 3, first);
    const dma_desc_t *ring = (const dma_desc_t *)((const char *)block + dma_block_layout(&geom, 3).ring);

    ck_assert_uint_eq(atomic_load(&block->acked), (uint32_t)(first - 1));
    for (int i = 0; i < 4; i++) {
        ck_assert_int_gt((int32_t)((uint32_t)first - atomic_load(&ring[i].seq)), 0);
        ck_assert_int_gt((int64_t)(first - atomic_load(&ring[i].second_entry)), 0);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(atomic_load(&block->pairs[i].landed), first - 1);
    }
    dma_arena_destroy(arena);
}
END_TEST

/* A window of three ranks. All blocks belong to this process. */
START_TEST(ring_waits_for_the_slowest)
{
    dma_geom_t geom = {.ring_depth = 4, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    dma_peer_t peers[3] = {0};
    uint32_t acks[3] = {0}, first = (uint32_t)_i;
    dma_window_t w = {.rank = 1, .nranks = 3, .geom = geom, .peers = peers, .acks = acks};

    for (int r = 0; r < 3; r++) {
        peers[r].block = dma_window_block(arena, &geom, 3, (uint64_t)first + 1);
        acks[r] = first;
    }
    w.own = peers[1].block;
    w.ack = w.ack_published = w.ack_floor = first;
    ck_assert(dma_window_may_publish(&w, first + 4));
    ck_assert(!dma_window_may_publish(&w, first + 5));
    w.ack = first + 4; /* the own progress is not enough */
    ck_assert(!dma_window_may_publish(&w, first + 5));
    atomic_store(&peers[0].block->acked, first + 3);
    ck_assert(!dma_window_may_publish(&w, first + 5));
    atomic_store(&peers[2].block->acked, first + 1);
    ck_assert(dma_window_may_publish(&w, first + 5));
    ck_assert(!dma_window_may_publish(&w, first + 6));
    acks[2] = first + 3; /* seen in a descriptor */
    ck_assert(dma_window_may_publish(&w, first + 7));
    ck_assert(!dma_window_may_publish(&w, first + 8));

    /* an acknowledgement that no descriptor will soon carry is written to the ack line */
    w.ack_published = first;
    dma_window_completed(&w, first + 1);
    ck_assert_uint_eq(atomic_load(&w.own->acked), first);
    dma_window_completed(&w, first + 2);
    ck_assert_uint_eq(atomic_load(&w.own->acked), first + 2);
    dma_arena_destroy(arena);
}
END_TEST

/* A communicator unmaps the memory of its peers, unless a device accesses it until the process ends. */
START_TEST(mappings_are_given_back)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    dma_geom_t geom = {.ring_depth = 16, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
    dma_peer_t peers[2] = {{.block = dma_window_block(arena, &geom, 2, 1)}};
    dma_window_t w = {.nranks = 2, .geom = geom, .own = peers[0].block, .arena = arena, .peers = peers};
    dma_arena_id_t own, other;
    dma_reason_t why;
    pid_t pid = child_with_arena(&other);

    ck_assert_int_eq(dma_registry_add(arena), DMA_OK);
    dma_arena_identify(arena, &own);
    ck_assert_int_eq(dma_registry_get(&own, &peers[0].mapping, &why), DMA_OK);
    ck_assert_int_eq(dma_registry_get(&other, &peers[1].mapping, &why), DMA_OK);
    peers[1].block = (dma_block_t *)(peers[1].mapping->base + DMA_ARENA_ALIGN);
    w.permanent = true;
    dma_window_leave(&w, &lock);
    dma_registry_drop_idle();
    ck_assert_uint_eq(mapped_arenas(), 2);
    ck_assert_uint_eq(atomic_load(&peers[1].block->head.readers), 1);
    w.permanent = false;
    dma_window_leave(&w, &lock);
    ck_assert_uint_eq(atomic_load(&peers[1].block->head.readers), 0);
    dma_registry_drop_idle();
    ck_assert_uint_eq(mapped_arenas(), 1); /* our own arena */
    dma_registry_remove(arena);
    dma_arena_destroy(arena);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

/* A child that has completed call 5 and not announced it leaves, and frees its memory, and does not end. */
static pid_t child_that_left(const dma_geom_t *geom, dma_arena_id_t *card, int *from)
{
    int fds[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        dma_arena_t *arena = make(DMA_ARENA_MEMFD, NULL);
        dma_peer_t self = {.block = dma_window_block(arena, geom, 1, 1)};
        dma_window_t w = {.nranks = 1, .geom = *geom, .own = self.block, .arena = arena, .peers = &self};
        dma_reason_t why;
        char go;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dma_registry_add(arena);
        dma_arena_identify(arena, card);
        if (write(fds[1], card, sizeof(*card)) != sizeof(*card) ||
            dma_registry_get(card, &self.mapping, &why) != DMA_OK || read(*from, &go, 1) != 1) {
            _exit(1);
        }
        w.ack = 5;
        dma_window_leave(&w, &lock);
        dma_registry_remove(arena);
        dma_arena_destroy(arena);
        if (write(fds[1], "left", 4) != 4) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], card, sizeof(*card)), sizeof(*card));
    *from = fds[0];
    return pid;
}

/* A rank that had completed a call and left was taken for dead by ranks that were still in the call. */
START_TEST(left_is_not_dead)
{
    dma_geom_t geom = {.ring_depth = 16, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    dma_peer_t peer = {0};
    dma_window_t w = {.nranks = 1, .geom = geom, .peers = &peer};
    dma_arena_id_t card;
    dma_reason_t why;
    int go[2], from;
    char text[4];
    pid_t pid;

    ck_assert_int_eq(pipe(go), 0);
    from = go[0];
    pid = child_that_left(&geom, &card, &from);
    ck_assert_int_eq(dma_registry_get(&card, &peer.mapping, &why), DMA_OK);
    peer.block = (dma_block_t *)(peer.mapping->base + DMA_ARENA_ALIGN);
    ck_assert_int_eq(dma_window_find_dead(&w, 6), -1);
    ck_assert_int_eq(write(go[1], "g", 1), 1);
    ck_assert_int_eq(read(from, text, 4), 4);
    ck_assert(!dma_mapping_alive(peer.mapping));
    ck_assert_int_eq(dma_window_find_dead(&w, 4), -1);
    ck_assert_int_eq(dma_window_find_dead(&w, 5), -1);
    ck_assert_int_eq(dma_window_find_dead(&w, 6), 0); /* it will not enter this one */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    dma_registry_put(peer.mapping);
    dma_registry_drop_idle();
    close(from);
    close(go[0]);
    close(go[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("node");

    unit_test(suite, blocks_come_back_when_the_last_reader_left, 10);
    unit_test(suite, full_arena_says_so, 10);
    unit_test(suite, files_may_not_be_large, 10);
    unit_test(suite, memory_is_taken_as_blocks_are, 10);
    unit_test(suite, memory_comes_in_pieces, 10);
    unit_test(suite, file_arena_leaves_nothing, 10);
    unit_test(suite, no_directory_for_the_file, 10);
    unit_test(suite, mapping_of_another_process, 10);
    unit_test(suite, cards_are_checked, 10);
    unit_test(suite, cross_memory_probe, 10);
    unit_test(suite, regions_of_a_block_do_not_overlap, 10);
    unit_loop(suite, a_new_block_has_no_calls, 0, 4, 10);
    unit_loop(suite, ring_waits_for_the_slowest, -3, 3, 10); /* across the wrap */
    unit_test(suite, mappings_are_given_back, 10);
    unit_test(suite, left_is_not_dead, 10);
    return unit_main(suite);
}
