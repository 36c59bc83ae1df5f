/* Values of parameters from text. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "dma/params.h"
#include "libunit.h"

static dma_params_t params;
static char why[DMA_PARAM_TEXT_BYTES];

static bool is_number(const dma_param_t *p)
{
    return p->kind == DMA_PARAM_KIND_INTEGER || p->kind == DMA_PARAM_KIND_REAL;
}

static double value_of(const dma_param_t *p)
{
    const char *member = (const char *)&params + p->offset;
    double real;
    uint64_t wide;
    int32_t narrow;

    if (p->kind == DMA_PARAM_KIND_REAL) {
        memcpy(&real, member, sizeof(real));
        return real;
    }
    if (p->bytes == sizeof(wide)) {
        memcpy(&wide, member, sizeof(wide));
        return (double)wide;
    }
    memcpy(&narrow, member, sizeof(narrow));
    return narrow;
}

static void accepted(const dma_param_t *p, const char *text, double value)
{
    ck_assert_msg(dma_param_set(&params, p, text, why) == DMA_OK, "%s: %s", p->name, why);
    ck_assert_msg(value_of(p) == value, "%s: \"%s\" gives %g", p->name, text, value_of(p));
}

static void refused(const dma_param_t *p, const char *text)
{
    dma_params_default(&params);
    ck_assert_msg(dma_param_set(&params, p, text, why) == DMA_ERR_ARG, "%s: \"%s\" is accepted", p->name, text);
    if (is_number(p)) {
        double given = value_of(p);

        ck_assert_int_eq(dma_param_set(&params, p, p->initial, why), DMA_OK);
        ck_assert_msg(given == value_of(p), "%s: \"%s\" gives %g", p->name, text, given);
    }
}

/* Bounds are inclusive. A value beyond them leaves the default. */
START_TEST(every_number_has_bounds)
{
    const dma_param_t *p = &dma_param_table[_i];
    char text[64];

    if (!is_number(p)) {
        return;
    }
    ck_assert(p->least < p->most && p->most < 0x1p53);
    dma_params_default(&params);
    snprintf(text, sizeof(text), "%.15g", p->least);
    accepted(p, text, p->least);
    snprintf(text, sizeof(text), "%.15g", p->most);
    accepted(p, text, p->most);
    snprintf(text, sizeof(text), "%.15g", p->least - 1);
    if (!p->zero || p->least != 1) {
        refused(p, text);
    }
    snprintf(text, sizeof(text), "%.15g", p->most + 1);
    refused(p, text);
    refused(p, "18446744073709550616");
    refused(p, "-18446744073709550616");
    refused(p, "18446744073709551617"); /* 2^64 + 1 */
    refused(p, "9223372036854775808G");
    refused(p, "garbage");
    refused(p, "4x");
    refused(p, "");
    refused(p, " ");
    refused(p, "nan");
    refused(p, "inf");
    if (p->least >= 0) {
        refused(p, "-1");
    }
    if (p->kind == DMA_PARAM_KIND_INTEGER) {
        refused(p, "5.5");
    }
}
END_TEST

START_TEST(forms_of_integers)
{
    const dma_param_t *p = &dma_param_table[DMA_PARAM_INDEX_arena_bytes];

    accepted(p, "0x10", 16);
    accepted(p, "64K", 65536);
    accepted(p, "2m", 2097152);
    accepted(p, "1g", 1073741824);
    refused(p, "1025G"); /* one more than the bound */
    refused(p, "K");
    refused(p, "1KK");
}
END_TEST

START_TEST(zero_beside_the_bounds)
{
    const dma_param_t *p = &dma_param_table[DMA_PARAM_INDEX_net_chunk_bytes];

    accepted(p, "0", 0);
    refused(p, "1");
    refused(p, "4095");
    ck_assert_str_eq(why,
                     "coll_dma_net_chunk_bytes is \"4095\", which is not 0 or an integer from 4096 to 1073741824: the "
                     "default, 0, is used instead");
}
END_TEST

START_TEST(names)
{
    for (size_t i = 0; i < DMA_PARAM_COUNT; i++) {
        const dma_param_t *p = &dma_param_table[i];

        if (p->kind != DMA_PARAM_KIND_NAME) {
            continue;
        }
        dma_params_default(&params);
        ck_assert_str_eq((char *)&params + p->offset, "auto");
        for (size_t n = 0; p->value(n); n++) {
            ck_assert_int_eq(dma_param_set(&params, p, p->value(n), why), DMA_OK);
            ck_assert_str_eq((char *)&params + p->offset, p->value(n)); /* it fits */
        }
        ck_assert_int_eq(dma_param_set(&params, p, "", why), DMA_OK);
        ck_assert_str_eq((char *)&params + p->offset, "auto");
        refused(p, "nosuch");
        refused(p, "autox");
    }
    ck_assert_int_eq(dma_param_set(&params, &dma_param_table[DMA_PARAM_INDEX_queues], "nosuch", why), DMA_ERR_ARG);
    ck_assert_str_eq(why,
                     "coll_dma_queues is \"nosuch\", which is not one of auto, rocr, kfd: the default, auto, is used "
                     "instead");
}
END_TEST

START_TEST(paths)
{
    const dma_param_t *p = &dma_param_table[DMA_PARAM_INDEX_sysfs];

    dma_params_default(&params);
    ck_assert_ptr_null(params.sysfs);
    ck_assert_int_eq(dma_param_set(&params, p, "/x", why), DMA_OK);
    ck_assert_str_eq(params.sysfs, "/x");
    ck_assert_int_eq(dma_param_set(&params, p, "", why), DMA_OK);
    ck_assert_ptr_null(params.sysfs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("params");

    unit_loop(suite, every_number_has_bounds, 0, DMA_PARAM_COUNT, 10);
    unit_test(suite, forms_of_integers, 10);
    unit_test(suite, zero_beside_the_bounds, 10);
    unit_test(suite, names, 10);
    unit_test(suite, paths, 10);
    return unit_main(suite);
}
