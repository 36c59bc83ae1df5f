/* Choosing a variant, the cost model behind it, and reading its constants. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libunit.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define TIB (MIB * MIB)

static dma_plan_req_t request_of(dma_coll_t coll, int n, uint64_t bytes)
{
    return (dma_plan_req_t){
        .coll = coll,
        .nranks = n,
        .bytes = bytes,
        .cross_memory = true,
        .ranks_per_core_x16 = 16,
        .geom = {.ring_depth = 8,
                 .slot_bytes = 8192,
                 .chunk_bytes = 65536,
                 .chunk_depth = 4,
                 .pair_bytes = 32768,
                 .pair_depth = 4},
    };
}

static dma_plan_req_t request(int n, uint64_t bytes)
{
    return request_of(DMA_ALLGATHER, n, bytes);
}

static bool fits(int variant, const dma_plan_req_t *req)
{
    return dma_coll_is_served(req->coll, dma_variants[variant]->serves) && !dma_variants[variant]->unfit(req);
}

static dma_choice_t choose(const dma_profile_t *profile, dma_plan_req_t req, int forced)
{
    dma_choice_t choice = {.variant = 99};
    const char *reason = NULL;

    ck_assert_int_eq(dma_plan_choose(profile, &req, forced, &choice, &reason), DMA_OK);
    return choice;
}

static const char *chosen(dma_plan_req_t req)
{
    dma_profile_t profile = dma_profile_default();

    return dma_variants[choose(&profile, req, -1).variant]->name;
}

START_TEST(the_cheapest_that_fits)
{
    dma_profile_t profile = dma_profile_default();

    for (uint64_t bytes = 1; bytes < TIB; bytes *= 3) {
        for (int i = 0; i < 7 * DMA_COLL_COUNT; i++) {
            static const int ranks[] = {2, 3, 5, 14, 41, 122, 256};
            dma_plan_req_t req = request_of((dma_coll_t)(i / 7), ranks[i % 7], bytes);
            dma_choice_t best = choose(&profile, req, -1);
            for (int v = 0; dma_variants[v]; v++) {
                if (fits(v, &req)) {
                    ck_assert_uint_le(best.cost_ps, choose(&profile, req, v).cost_ps);
                }
            }
            ck_assert(fits((int)best.variant, &req));
        }
    }
}
END_TEST

START_TEST(forced)
{
    dma_profile_t profile = dma_profile_default();
    dma_gpu_profile_t gpu = dma_gpu_profile_default();
    dma_choice_t choice;
    const char *reason;

    for (int v = 0; dma_variants[v]; v++) {
        ck_assert_int_eq(dma_variant_find(dma_variants[v]->name), v);
        for (int c = 0; c < DMA_COLL_COUNT; c++) {
            dma_plan_req_t req = request_of((dma_coll_t)c, 3, 8);
            req.gpu = dma_variants[v]->gpu ? &gpu : NULL;
            req.bcst = true;
            req.max_queues = 2;
            req.in_place = !strcmp(dma_variants[v]->name, "swap") || !strcmp(dma_variants[v]->name, "halves");
            bool can = fits(v, &req);
            ck_assert_int_eq(choose(&profile, req, v).variant == (unsigned)v,
                             can || choose(&profile, req, -1).variant == (unsigned)v);
        }
    }
    /* if a forced variant does not fit, another one runs, and the reason says why */
    dma_plan_req_t req = request(3, 100);
    int line = dma_variant_find("host_line");
    ck_assert_int_eq(dma_plan_choose(&profile, &req, line, &choice, &reason), DMA_OK);
    ck_assert_uint_ne(choice.variant, (unsigned)line);
    ck_assert_ptr_nonnull(reason);
    /* if it fits, there is no reason */
    req.bytes = 8;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, line, &choice, &reason), DMA_OK);
    ck_assert_ptr_null(reason);
}
END_TEST

START_TEST(nothing_fits)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = request(3, 100000);
    dma_choice_t choice;
    const char *reason = NULL;

    req.cross_memory = false;
    req.geom.chunk_depth = 0;
    req.geom.slot_bytes = 0;
    req.geom.pair_bytes = 0;
    for (int c = 0; c < DMA_COLL_COUNT; c++) {
        req.coll = (dma_coll_t)c;
        reason = NULL;
        ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_UNSUPPORTED);
        ck_assert_ptr_nonnull(reason);
    }
    req.geom.slot_bytes = 8192;
    req.geom.pair_depth = 0; /* without buffers, nothing is divided by their number */
    req.coll = DMA_ALLTOALLV;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_UNSUPPORTED);
    ck_assert_ptr_nonnull(reason);
    req.coll = DMA_COLL_COUNT;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_UNSUPPORTED);
    ck_assert_str_eq(reason, "no variant does this operation");
}
END_TEST

/* All ranks must choose alike, so nothing that may differ between ranks may count: in an all-gather, whether it is
 * in place. */
START_TEST(in_place_does_not_steer)
{
    dma_profile_t profile = dma_profile_default();

    for (uint64_t bytes = 0; bytes < 64 * MIB; bytes = bytes * 2 + 1) {
        for (int n = 1; n < 40; n += 3) {
            for (int c = 0; c < DMA_COLL_COUNT; c++) {
                dma_plan_req_t req = request_of((dma_coll_t)c, n, bytes);
                dma_choice_t a = choose(&profile, req, -1), b;
                req.in_place = dma_coll_gathers((dma_coll_t)c);
                b = choose(&profile, req, -1);
                ck_assert_mem_eq(&a, &b, sizeof(a));
            }
        }
    }
}
END_TEST

/* A variant that reads a peer's block must not run if the peer's own results overwrite the block, even if it is forced. */
START_TEST(all_to_all_in_place)
{
    dma_profile_t profile = dma_profile_default();
    int cross = dma_variant_find("host_reach");
    bool otherwise = false;

    profile.cross_ps = profile.cross_page_ps = 0; /* makes it as cheap as possible */
    for (uint64_t bytes = 0; bytes < TIB; bytes = bytes * 2 + 1) {
        for (int n = 2; n <= 256; n = n * 2 - n / 3) {
            for (int c = DMA_ALLTOALL; c <= DMA_ALLTOALLV; c++) {
                dma_plan_req_t req = request_of((dma_coll_t)c, n, bytes);
                otherwise |= choose(&profile, req, -1).variant == (unsigned)cross;
                req.in_place = true;
                ck_assert_uint_ne(choose(&profile, req, -1).variant, (unsigned)cross);
                ck_assert_uint_ne(choose(&profile, req, cross).variant, (unsigned)cross);
            }
        }
    }
    ck_assert(otherwise);
}
END_TEST

/* ---- a variant fits, whatever the set-up has agreed on ---- */

static void something_fits(dma_plan_req_t req, const char *what)
{
    dma_profile_t profile = dma_profile_default();
    dma_choice_t choice;
    const char *reason = NULL;

    for (int k = 0; k < 2; k++) {
        req.in_place = k;
        ck_assert_msg(dma_plan_choose(&profile, &req, -1, &choice, &reason) == DMA_OK,
                      "%s, operation %d, %d ranks, %" PRIu64 " bytes%s, slots of %u, chunks of %u, pairs of %u: %s",
                      what, req.coll, req.nranks, req.bytes, k ? " in place" : "", req.geom.slot_bytes,
                      req.geom.chunk_bytes, req.geom.pair_bytes, reason);
    }
}

/* The smallest geometry that set-up makes for n ranks. Set-up only doubles these numbers. */
static dma_geom_t least_geom(int n)
{
    dma_geom_t g = {
        .ring_depth = 4, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2, .pair_bytes = 1024, .pair_depth = 4};

    while (g.slot_bytes < 16 * (uint32_t)n) {
        g.slot_bytes *= 2;
    }
    return g;
}

/* Without access to peers' memory, for all sizes: the smallest geometry, and larger ones in every direction. */
START_TEST(something_fits_everywhere)
{
    for (int n = 2; n <= 256; n += n < 40 ? 1 : 9) {
        for (int i = 0; i < 3 * 3 * 3; i++) {
            dma_geom_t g = least_geom(n);
            g.slot_bytes <<= 2 * (i % 3);
            g.chunk_bytes <<= 2 * (i / 3 % 3);
            g.pair_bytes <<= 2 * (i / 9);
            for (int c = 0; c < DMA_COLL_COUNT; c++) {
                for (uint64_t bytes = 0; bytes <= TIB; bytes = bytes * 7 + 1) {
                    dma_plan_req_t req = request_of((dma_coll_t)c, n, bytes);
                    req.geom = g;
                    req.cross_memory = false;
                    something_fits(req, "set-up");
                }
            }
        }
    }
}
END_TEST

/* The shared memory of a channel is for one operation and size: only slots, or only buffers for streams. */
START_TEST(something_fits_in_channels)
{
    for (int n = 2; n <= 256; n += n < 20 ? 1 : 17) {
        for (int i = 0; i < 4 * DMA_COLL_COUNT; i++) {
            dma_coll_t coll = (dma_coll_t)(i / 4);
            dma_geom_t parent = least_geom(n);
            parent.slot_bytes <<= 2 * (i % 4);
            for (uint64_t bytes = 0; bytes <= TIB; bytes = bytes < 2000 ? bytes + 1 : bytes * 5 + 3) {
                uint64_t blocks = coll == DMA_ALLTOALL ? (uint64_t)n - 1 : 1;
                uint64_t need = coll == DMA_ALLTOALL ? (bytes + 7) / 8 * 8 * blocks : bytes;
                dma_plan_req_t req = request_of(coll, n, bytes);
                req.cross_memory = false;
                req.geom = parent;
                if (dma_coll_sizes(coll) == DMA_SIZES_OWN) {
                    req.geom.chunk_bytes = 0;
                } else if (need <= parent.slot_bytes) {
                    while (req.geom.slot_bytes > 64 && req.geom.slot_bytes / 2 >= need) {
                        req.geom.slot_bytes /= 2;
                    }
                    req.geom.chunk_bytes = req.geom.pair_bytes = 0;
                } else if (coll == DMA_ALLTOALL) {
                    req.geom.chunk_bytes = 0;
                } else {
                    req.geom.slot_bytes = 64;
                    req.geom.pair_bytes = 0;
                }
                something_fits(req, "a channel");
            }
        }
    }
}
END_TEST

/* Chunks are usable: not 0 if the plan has a loop, and not larger than a buffer if chunk buffers are used. */
START_TEST(chunks_fit)
{
    dma_profile_t profile = dma_profile_default();

    for (uint64_t bytes = 1; bytes < TIB; bytes *= 5) {
        for (uint32_t most = 4096; most <= 262144; most += most / 3 + 1) {
            dma_plan_req_t req = request(5, bytes);
            req.geom.chunk_bytes = most;
            dma_choice_t choice = choose(&profile, req, dma_variant_find("host_pipe"));
            ck_assert_uint_ge(choice.chunk, 1);
            ck_assert_uint_le(choice.chunk, most);
        }
        for (uint32_t most = 1024; most <= 262144; most *= 2) {
            dma_plan_req_t req = request_of(DMA_ALLTOALL, 5, bytes);
            req.geom.pair_bytes = most;
            dma_choice_t choice = choose(&profile, req, dma_variant_find("host_pair"));
            ck_assert_uint_ge(choice.chunk, 1);
            ck_assert_uint_le(choice.chunk, most / req.geom.pair_depth);
        }
        ck_assert_uint_ge(choose(&profile, request(5, bytes), dma_variant_find("host_reach")).chunk, 1);
    }
}
END_TEST

static void check_monotone(const dma_profile_t *profile, const char *what, uint32_t per_core_x16)
{
    for (int i = 0; dma_variants[i / DMA_COLL_COUNT]; i++) {
        int v = i / DMA_COLL_COUNT, c = i % DMA_COLL_COUNT;
        for (int n = 2; n <= 256; n *= 2) {
            uint64_t last = 0;
            for (uint64_t bytes = 1; bytes <= TIB; bytes *= 2) {
                dma_plan_req_t req = request_of((dma_coll_t)c, n, bytes);
                req.ranks_per_core_x16 = per_core_x16;
                if (!fits(v, &req)) {
                    break;
                }
                uint64_t cost = choose(profile, req, v).cost_ps;
                ck_assert_msg(cost >= last,
                              "%s, %s, operation %d, %d ranks: %" PRIu64 " bytes cost %" PRIu64 " ps, half %" PRIu64,
                              what, dma_variants[v]->name, c, n, bytes, cost, last);
                last = cost;
            }
        }
    }
}

/* More bytes never cost less, up to 1 TiB per block. */
START_TEST(cost_is_monotone)
{
    dma_profile_t profile = dma_profile_default();

    check_monotone(&profile, "default profile", 16);
    check_monotone(&profile, "default profile, 4 ranks per core", 64);
    check_monotone(&profile, "default profile, 256 ranks per core", 4096);
}
END_TEST

static dma_profile_t uniform(uint64_t time, uint64_t rate)
{
    dma_profile_t profile;
    char text[2000] = "", error[100];

#define LINE(name, value, help)                                                                                        \
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %" PRIu64 "\n", #name,                              \
             strstr(#name, "_mbps") ? rate : time);
    DMA_PROFILE_FIELDS(LINE)
#undef LINE
    ck_assert_msg(dma_profile_load(unit_file(text), &profile, error, sizeof(error)) == DMA_OK, "%s", error);
    return profile;
}

/* Whatever a profile contains, no sum wraps. A sum that wraps would make the worst candidate look like the best. */
START_TEST(cost_never_wraps)
{
    const uint64_t most = UINT64_C(1) << 40;
    dma_profile_t profiles[] = {uniform(0, most), uniform(0, 1), uniform(most, most), uniform(most, 1)};

    for (size_t i = 0; i < 4; i++) {
        char what[60];
        snprintf(what, sizeof(what), "extreme profile %zu", i);
        check_monotone(&profiles[i], what, 16);
        check_monotone(&profiles[i], what, 4096);
    }
}
END_TEST

/* Blocks beyond any memory: there is an answer, no crash and no cost that has wrapped to 0. */
START_TEST(huge_blocks)
{
    dma_profile_t profile = dma_profile_default();

    for (int c = 0; c < DMA_COLL_COUNT; c++) {
        uint64_t least = choose(&profile, request_of((dma_coll_t)c, 256, TIB / 2), -1).cost_ps;
        for (int shift = 40; shift < 64; shift++) {
            dma_plan_req_t req = request_of((dma_coll_t)c, 256, UINT64_C(1) << shift);
            for (int v = 0; dma_variants[v]; v++) {
                if (fits(v, &req)) {
                    ck_assert_uint_ge(choose(&profile, req, v).cost_ps, least);
                }
            }
            ck_assert_uint_ge(choose(&profile, req, -1).cost_ps, least);
        }
    }
}
END_TEST

/* What a user would notice. */
START_TEST(golden)
{
    dma_plan_req_t req;

    ck_assert_str_eq(chosen(request(2, 8)), "host_line");
    ck_assert_str_eq(chosen(request(4, 32)), "host_line");
    ck_assert_str_eq(chosen(request(4, 1000)), "host_slot");
    req = request(4, 4 * MIB);
    req.cross_memory = false;
    ck_assert_str_eq(chosen(req), "host_pipe");
    /* four ranks per core: two copies without system calls are cheaper than one copy with them */
    req = request(4, 64 * KIB);
    req.ranks_per_core_x16 = 64;
    ck_assert_str_eq(chosen(req), "host_pipe");
    ck_assert_str_eq(chosen(request_of(DMA_ALLGATHERV, 4, 32)), "host_line");
    ck_assert_str_eq(chosen(request_of(DMA_ALLTOALL, 4, 32)), "host_line");
    ck_assert_str_eq(chosen(request_of(DMA_ALLTOALL, 4, 1000)), "host_slot");
    req = request_of(DMA_ALLTOALL, 4, 4 * MIB);
    req.cross_memory = false;
    ck_assert_str_eq(chosen(req), "host_pair");
    ck_assert_str_eq(chosen(request_of(DMA_ALLTOALLV, 4, 65536)), "host_pair");
}
END_TEST

/* ---- profiles ---- */

static char *default_text(char *text, size_t size)
{
    *text = '\0';
#define LINE(name, value, help)                                                                                        \
    snprintf(text + strlen(text), size - strlen(text), "%s %" PRIu64 " # %s\n", #name, (uint64_t)(value), help);
    DMA_PROFILE_FIELDS(LINE)
#undef LINE
    return text;
}

/* The longest block that an all-to-all-v sends through slots. */
static uint64_t head_of(dma_plan_req_t req)
{
    dma_plan_t *plan;
    uint64_t head;
    int pair = 0;

    while (strcmp(dma_variants[pair]->name, "host_pair")) {
        pair++;
    }
    ck_assert_int_eq(dma_variants[pair]->build(&req, 0, &plan), DMA_OK);
    head = plan->head;
    dma_plan_free(plan);
    return head;
}

/* If it is expensive to write a line that a reader still has in its cache, a block goes through the ring as soon as
 * the slot would cost more than the second synchronisation of the ring. The test computes from how many bytes on
 * that is so. */
START_TEST(short_blocks)
{
    const uint64_t ring = 2 * DMA_PROFILE_CACHE;
    dma_profile_t p = dma_profile_default();
    dma_plan_req_t req = request_of(DMA_ALLTOALLV, 2, 1000);

    p.enter_ps = 80000;
    p.peer_ps = 30000;
    p.copy_mbps = 50000;
    p.push_mbps = p.slot_mbps = 8000;
    ck_assert_uint_eq(dma_profile_head(&p, ring), 1680); /* 140 ns for 1/8000 - 1/24000 us each */
    p.push_mbps = p.slot_mbps = 2000;
    ck_assert_uint_eq(dma_profile_head(&p, ring), 1024); /* the flags do not get cheaper */
    p.push_mbps = p.slot_mbps = 50000;
    ck_assert_uint_eq(dma_profile_head(&p, ring), UINT64_MAX); /* a ring is no faster */
    p.push_mbps = p.slot_mbps = 2000;
    ck_assert_uint_eq(dma_profile_head(&p, DMA_PROFILE_CACHE / 2),
                      UINT64_MAX); /* nor is a ring that the reader also keeps in its cache */
    p.enter_ps = p.push_mbps = p.copy_mbps = UINT64_C(1) << 40;
    p.slot_mbps = p.push_mbps - 1;
    (void)dma_profile_head(&p, ring);

    ck_assert_uint_eq(head_of(req), 8192 - 16);
    req.head = 420;
    ck_assert_uint_eq(head_of(req), 420);
    req.head = UINT64_MAX;
    ck_assert_uint_eq(head_of(req), 8192 - 16);
}
END_TEST

START_TEST(profile_round_trip)
{
    char text[4000], error[100] = "";
    dma_profile_t a = dma_profile_default(), b;

    memset(&b, 0xff, sizeof(b));
    ck_assert_int_eq(dma_profile_load(unit_file(default_text(text, sizeof(text))), &b, error, sizeof(error)), DMA_OK);
    ck_assert_mem_eq(&a, &b, sizeof(a));
}
END_TEST

/* Comments, blank lines, tabs and CR LF are fine. */
START_TEST(profile_layout)
{
    char text[4000], odd[8000] = "# a profile\r\n\n   \t\n", error[100] = "";
    dma_profile_t a = dma_profile_default(), b;

    for (char *c = default_text(text, sizeof(text)); *c; c++) {
        size_t n = strlen(odd);
        snprintf(odd + n, sizeof(odd) - n, *c == '\n' ? "\r\n" : *c == ' ' ? "\t " : "%c", *c);
    }
    odd[strlen(odd) - 2] = '\0'; /* no end of line at the end */
    ck_assert_msg(dma_profile_load(unit_file(odd), &b, error, sizeof(error)) == DMA_OK, "%s", error);
    ck_assert_mem_eq(&a, &b, sizeof(a));
}
END_TEST

static void refuse(const char *text, const char *says)
{
    char error[100] = "";
    dma_profile_t p, before;

    memset(&p, 0x3c, sizeof(p));
    before = p;
    ck_assert_msg(dma_profile_load(unit_file(text), &p, error, sizeof(error)) == DMA_ERR_ARG, "accepted:\n%s", text);
    ck_assert_msg(strstr(error, says) != NULL, "expected \"%s\", got \"%s\"", says, error);
    ck_assert_mem_eq(&p, &before, sizeof(p));
}

/* `text` with what follows `name` replaced. */
static void replace(char *out, size_t size, const char *name, const char *line)
{
    char text[4000];
    char *at = strstr(default_text(text, sizeof(text)), name), *end = strchr(at, '\n');

    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, line, end);
}

START_TEST(profile_errors)
{
    char text[8000];
    static const char *const bad[] = {"enter_ps",
                                      "enter_ps 1 2",
                                      "enter_ps -1",
                                      "enter_ps 1x",
                                      "enter_ps 0x10",
                                      "enter_ps 1.5",
                                      "enter_ps +1",
                                      "enter_ps 1099511627777",
                                      "enter_ps 99999999999999999999999999999",
                                      "entr_ps 5",
                                      "enter_ps # 4"};

    refuse("", "missing");
    refuse("# nothing\n", "missing");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        replace(text, sizeof(text), "enter_ps", bad[i]);
        refuse(text, "line 1: ");
    }
    replace(text, sizeof(text), "peer_ps", "copy_mbps 100");
    refuse(text, "line 3: given twice");
    replace(text, sizeof(text), "peer_ps", "");
    refuse(text, "peer_ps is missing");
    replace(text, sizeof(text), "copy_mbps", "copy_mbps 0");
    refuse(text, "line 3: a rate");
    memset(text, '#', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refuse(text, "longer");
}
END_TEST

START_TEST(profile_error_is_bounded)
{
    char error[8] = "xxxxxxx";
    dma_profile_t p;

    ck_assert_int_eq(dma_profile_load(unit_file("nonsense 1"), &p, error, sizeof(error)), DMA_ERR_ARG);
    ck_assert_uint_eq(strlen(error), sizeof(error) - 1);
}
END_TEST

START_TEST(profile_files)
{
    char path[] = "/tmp/dma-profile-XXXXXX", text[4000], error[200] = "";
    dma_profile_t a = dma_profile_default(), b;
    int fd = mkstemp(path);

    default_text(text, sizeof(text));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(dma_profile_load(path, &b, error, sizeof(error)), DMA_OK);
    ck_assert_mem_eq(&a, &b, sizeof(a));
    /* a file longer than the longest profile is not cut silently */
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(write(fd, "# a long comment at the end of the file, again and again and again\n", 67), 67);
    }
    close(fd);
    ck_assert_int_eq(dma_profile_load(path, &b, error, sizeof(error)), DMA_ERR_ARG);
    unlink(path);
    ck_assert_int_eq(dma_profile_load(path, &b, error, sizeof(error)), DMA_ERR_ARG);
    ck_assert_str_ne(error, "");
    ck_assert_int_eq(dma_profile_load("/", &b, error, sizeof(error)), DMA_ERR_ARG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choose");

    unit_test(suite, the_cheapest_that_fits, 10);
    unit_test(suite, forced, 10);
    unit_test(suite, nothing_fits, 10);
    unit_test(suite, in_place_does_not_steer, 10);
    unit_test(suite, all_to_all_in_place, 10);
    unit_test(suite, something_fits_everywhere, 10);
    unit_test(suite, something_fits_in_channels, 60);
    unit_test(suite, chunks_fit, 10);
    unit_test(suite, cost_is_monotone, 10);
    unit_test(suite, cost_never_wraps, 10);
    unit_test(suite, huge_blocks, 10);
    unit_test(suite, golden, 10);
    unit_test(suite, short_blocks, 10);
    unit_test(suite, profile_round_trip, 10);
    unit_test(suite, profile_layout, 10);
    unit_test(suite, profile_errors, 10);
    unit_test(suite, profile_error_is_bounded, 10);
    unit_test(suite, profile_files, 10);
    return unit_main(suite);
}
