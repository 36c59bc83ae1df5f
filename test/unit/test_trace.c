/* The file of a trace: its contents, and what happens if there is no room. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libunit.h"
#include "trace/trace.h"

#define MIB ((size_t)1 << 20)

static char dir[] = "/tmp/dma_test_trace.XXXXXX";
static char path[256];

static void begin(void)
{
    strcpy(dir + sizeof(dir) - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(rmdir(dir), 0); /* it is created */
}

static long page_bytes; /* 0: those of this machine */

/* Replaces the function of the C library. */
long sysconf(int name)
{
    static long (*real)(int);

    if (!real) {
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    }
    return name == _SC_PAGESIZE && page_bytes ? page_bytes : real(name);
}

static const char *file_of(int rank, const char *more)
{
    snprintf(path, sizeof(path), "%s/41-7.%d%s.trace", dir, rank, more);
    return path;
}

static dma_trace_t *open_trace(size_t bytes)
{
    dma_trace_config_t config = {.dir = dir, .job = "41,7", .rank = 3, .bytes = bytes};
    const char *what = "";
    dma_trace_t *trace;

    ck_assert_msg(dma_trace_open(&config, &trace, &what) == DMA_OK, "%s", what);
    return trace;
}

/* Reads the file, removes it and returns its bytes. */
static size_t read_back(const char *name, dma_trace_head_t *head, dma_trace_event_t *events, size_t most)
{
    FILE *file = fopen(name, "r");
    struct stat st;
    size_t n;

    ck_assert_msg(file != NULL, "%s", name);
    ck_assert_int_eq(fstat(fileno(file), &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_uint_eq(fread(head, sizeof(*head), 1, file), 1);
    ck_assert_int_eq(fseek(file, (long)head->head_bytes, SEEK_SET), 0);
    n = fread(events, sizeof(*events), most, file);
    fclose(file);
    ck_assert_int_eq(unlink(name), 0);
    return n;
}

START_TEST(events_are_there)
{
    static const char name[] = "a communicator with a name longer than one event";
    dma_trace_head_t head;
    dma_trace_event_t e[16];
    dma_trace_comm_t first, second;
    dma_trace_t *trace;
    char text[80] = "";

    begin();
    trace = open_trace(MIB);
    dma_trace_add(trace, &first, 2, 5, false, 77, name);
    dma_trace_add(trace, &second, 0, 1, true, 78, "");
    dma_trace_mark(&second, DMA_TRACE_MET, (UINT64_C(1) << 32) + 9, 4, 5, 6);
    dma_trace_mark(NULL, DMA_TRACE_MET, 1, 1, 1, 1);
    dma_trace_plan(&first, 10, DMA_TRACE_NETWORK, "a_name_of_more_than_16_bytes");
    dma_trace_close(trace);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, 16), 6);
    ck_assert_uint_eq(head.magic, DMA_TRACE_MAGIC);
    ck_assert_int_eq(head.rank, 3);
    ck_assert_str_eq(head.job, "41,7");
    ck_assert(head.clock[0] && head.host[0] && head.monotonic && head.realtime && !head.lost);
    ck_assert_int_eq(e[0].kind, DMA_TRACE_COMM);
    ck_assert_uint_eq(e[0].a, UINT64_C(2) << 32 | 5);
    ck_assert_uint_eq(e[0].b, 77);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(e[i].kind, DMA_TRACE_TEXT);
        memcpy(text + 24 * (i - 1), &e[i].at, 8);
        memcpy(text + 24 * (i - 1) + 8, &e[i].a, 16);
    }
    ck_assert_str_eq(text, name);
    ck_assert_int_eq(e[3].kind, DMA_TRACE_COMM);
    ck_assert_int_eq(e[3].detail, 1);
    ck_assert(e[4].kind == DMA_TRACE_MET && e[4].comm == 1 && e[4].seq == 9 && e[4].detail == 4 && e[4].a == 5);
    ck_assert(e[4].at >= head.monotonic && e[4].at <= dma_trace_now());
    ck_assert_int_eq(memcmp(&e[5].a, "a_name_of_more_t", 16), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* A mebibyte is written at a time. No more is written than allowed, and the rest is counted. */
START_TEST(room_ends)
{
    enum { ROOM = 2 * (1 << 20) / 32, MORE = 100 };
    dma_trace_event_t *e = calloc(ROOM + MORE, sizeof(*e));
    dma_trace_head_t head;
    dma_trace_comm_t comm;
    dma_trace_t *trace;

    begin();
    trace = open_trace(2 * MIB + MIB / 2);
    dma_trace_add(trace, &comm, 0, 1, false, 1, "");
    for (unsigned i = 1; i < ROOM + MORE; i++) {
        dma_trace_mark(&comm, DMA_TRACE_END, i, 0, 0, 0);
    }
    dma_trace_close(trace);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, ROOM + MORE), ROOM);
    ck_assert_uint_eq(head.lost, MORE);
    for (unsigned i = 1; i < ROOM; i++) {
        ck_assert(e[i].kind == DMA_TRACE_END && e[i].seq == i);
    }
    free(e);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Without care, a file larger than the limit of the process ends the process with a signal. */
START_TEST(room_ends_at_the_limit_of_files)
{
    enum { ROOM = (1 << 20) / 32, MORE = 100 };
    dma_trace_event_t *e = calloc(ROOM + MORE, sizeof(*e));
    struct rlimit limit, old;
    dma_trace_head_t head;
    dma_trace_comm_t comm;
    dma_trace_t *trace;

    begin();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){.rlim_cur = DMA_TRACE_HEAD + MIB + MIB / 2, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    trace = open_trace(8 * MIB);
    dma_trace_add(trace, &comm, 0, 1, false, 1, "");
    for (unsigned i = 1; i < ROOM + MORE; i++) {
        dma_trace_mark(&comm, DMA_TRACE_END, i, 0, 0, 0);
    }
    dma_trace_close(trace);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, ROOM + MORE), ROOM);
    ck_assert_uint_eq(head.lost, MORE);
    free(e);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* An existing file is not overwritten. */
START_TEST(a_second_file)
{
    dma_trace_head_t head;
    dma_trace_event_t e[1];
    dma_trace_t *one, *two;

    begin();
    one = open_trace(MIB);
    two = open_trace(MIB);
    dma_trace_close(one);
    dma_trace_close(two);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, 1), 0);
    ck_assert_uint_eq(read_back(file_of(3, ".1"), &head, e, 1), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Pieces are mapped at multiples of a page, and the head is one of them. */
START_TEST(pages_are_large)
{
    dma_trace_head_t head;
    dma_trace_event_t e[4];
    dma_trace_comm_t comm;
    dma_trace_t *trace;

    begin();
    page_bytes = 65536;
    trace = open_trace(MIB);
    page_bytes = 0;
    ck_assert(dma_trace_add(trace, &comm, 1, 2, false, 9, ""));
    dma_trace_close(trace);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, 4), 1);
    ck_assert_uint_eq(head.head_bytes, 65536);
    ck_assert(e[0].kind == DMA_TRACE_COMM && e[0].b == 9);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* An event has 16 bits for the number of its communicator. */
START_TEST(numbers_end)
{
    static dma_trace_event_t e[DMA_TRACE_COMMS + 1];
    dma_trace_head_t head;
    dma_trace_comm_t comm;
    dma_trace_t *trace;

    begin();
    trace = open_trace(4 * MIB);
    for (unsigned i = 0; i < DMA_TRACE_COMMS; i++) {
        ck_assert(dma_trace_add(trace, &comm, 0, 1, false, i, ""));
    }
    ck_assert(!dma_trace_add(trace, &comm, 0, 1, false, 1, ""));
    ck_assert(!dma_trace_add(trace, &comm, 0, 1, false, 1, "its name"));
    dma_trace_close(trace);
    ck_assert_uint_eq(read_back(file_of(3, ""), &head, e, DMA_TRACE_COMMS + 1), DMA_TRACE_COMMS);
    ck_assert_uint_eq(head.unnumbered, 2);
    for (unsigned i = 0; i < DMA_TRACE_COMMS; i++) {
        ck_assert(e[i].comm == i && e[i].b == i);
    }
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(no_folder)
{
    dma_trace_config_t config = {.dir = "/nonexistent/folder", .job = "1,1", .bytes = MIB};
    const char *what = "";
    dma_trace_t *trace;

    ck_assert_int_eq(dma_trace_open(&config, &trace, &what), DMA_UNSUPPORTED);
    ck_assert_str_eq(what, "mkdir");
    config.dir = "/proc";
    ck_assert_int_eq(dma_trace_open(&config, &trace, &what), DMA_UNSUPPORTED);
    ck_assert_str_eq(what, "open");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");

    unit_test(suite, events_are_there, 10);
    unit_test(suite, room_ends, 10);
    unit_test(suite, room_ends_at_the_limit_of_files, 10);
    unit_test(suite, a_second_file, 10);
    unit_test(suite, pages_are_large, 10);
    unit_test(suite, numbers_end, 10);
    unit_test(suite, no_folder, 10);
    return unit_main(suite);
}
