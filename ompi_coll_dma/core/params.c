/* The parameters of include/dma/params_table.h: defaults, and values from text. */
#include "dma/params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dma/plan.h"
#include "engine/gpu.h"
#include "plan/cluster/cluster.h"

#define ZERO   true
#define RANGE  false
#define AGREED true
#define LOCAL  false
#define USER   1
#define TUNER  5
#define TESTER 9
#define AUTO   "auto"
#define PREFIX "coll_dma_"
#define KIBI   1024.0

/* The i-th name of a list that is ended by NULL; NULL: the list is shorter. */
static const char *name_at(const char *const *names, size_t i)
{
    while (*names && i > 0) {
        names++;
        i--;
    }
    return *names;
}

static const char *queue_providers(size_t i)
{
    static const char *const names[] = {AUTO, "rocr", "kfd", NULL};

    return name_at(names, i);
}

static const char *own_copies(size_t i)
{
    static const char *const names[] = {AUTO, "copy", "graph", "echo", NULL};

    return name_at(names, i);
}

static const char *stamp_choices(size_t i)
{
    static const char *const names[] = {AUTO, "some", "all", NULL};

    return name_at(names, i);
}

/* "auto", every engine, and "none". */
static const char *engines(size_t i)
{
    size_t n = 0;

    while (dma_gpu_engines[n]) {
        n++;
    }
    return i == 0 ? AUTO : i <= n ? dma_gpu_engines[i - 1]->name : i == n + 1 ? "none" : NULL;
}

/* "auto" and the variants for host memory, or those for device memory. */
static const char *variants(size_t i, bool gpu)
{
    if (i == 0) {
        return AUTO;
    }
    for (size_t v = 0; dma_variants[v]; v++) {
        if (dma_variants[v]->gpu == gpu && --i == 0) {
            return dma_variants[v]->name;
        }
    }
    return NULL;
}

static const char *host_variants(size_t i)
{
    return variants(i, false);
}

static const char *gpu_variants(size_t i)
{
    return variants(i, true);
}

static const char *net_variants(size_t i)
{
    size_t n = 0;

    while (dma_cluster_variants[n]) {
        n++;
    }
    return i == 0 ? AUTO : i <= n ? dma_cluster_variants[i - 1]->name : NULL;
}

void dma_params_default(dma_params_t *params)
{
    *params = (dma_params_t){
#define DMA_PARAM_NUMBER(type, name, initial, least, most, zero, scope, level, unit, help) .name = initial,
#define DMA_PARAM_NAME(name, bytes, values, scope, level, help)                            .name = AUTO,
#define DMA_PARAM_PATH(name, scope, level, help)
#include "dma/params_table.h"
#undef DMA_PARAM_NUMBER
#undef DMA_PARAM_NAME
#undef DMA_PARAM_PATH
        .local_procs = 1,
    };
}

/* clang-format off */
#define KIND(type) _Generic((type)0, double: DMA_PARAM_KIND_REAL, default: DMA_PARAM_KIND_INTEGER)
#define MEMBER(name) .offset = offsetof(dma_params_t, name), .bytes = sizeof(((dma_params_t *)NULL)->name)

const dma_param_t dma_param_table[DMA_PARAM_COUNT] = {
#define DMA_PARAM_NUMBER(type, name_, initial_, least_, most_, zero_, scope, level_, unit_, help_) \
    {.name = #name_, .help = help_, .kind = KIND(type), .agreed = scope, .level = level_, .zero = zero_, .initial = #initial_, \
     .unit = unit_, .least = least_, .most = most_, MEMBER(name_)},
#define DMA_PARAM_NAME(name_, bytes_, values_, scope, level_, help_) \
    {.name = #name_, .help = help_, .kind = DMA_PARAM_KIND_NAME, .agreed = scope, .level = level_, .initial = AUTO, .unit = "", \
     .value = values_, MEMBER(name_)},
#define DMA_PARAM_PATH(name_, scope, level_, help_) \
    {.name = #name_, .help = help_, .kind = DMA_PARAM_KIND_PATH, .agreed = scope, .level = level_, .unit = "", MEMBER(name_)},
#include "dma/params_table.h"
#undef DMA_PARAM_NUMBER
#undef DMA_PARAM_NAME
#undef DMA_PARAM_PATH
};
/* clang-format on */

/* A whole number in C's notation, with K, M or G behind it as Open MPI allows. Every bound is below 2^53, so a double
 * holds each allowed value exactly; anything beyond long long becomes its limit, which no bound allows. */
static bool parse_integer(const char *text, double *value)
{
    char *end;
    long long whole;

    if (text[strspn(text, " \t")] == '\0') {
        return false;
    }
    whole = strtoll(text, &end, 0);
    *value = (double)whole;
    switch (*end) {
    case 'G':
    case 'g':
        *value *= KIBI; /* fall through */
    case 'M':
    case 'm':
        *value *= KIBI; /* fall through */
    case 'K':
    case 'k':
        *value *= KIBI;
        end += end != text;
    }
    return end != text && *end == '\0';
}

static bool parse_real(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

static bool set_number(dma_params_t *params, const dma_param_t *param, const char *text)
{
    bool integer = param->kind == DMA_PARAM_KIND_INTEGER;
    void *member = (char *)params + param->offset;
    double value;

    /* A comparison with NaN is false, so this refuses it. */
    if (!(integer ? parse_integer(text, &value) : parse_real(text, &value)) ||
        !((value >= param->least && value <= param->most) || (param->zero && value == 0))) {
        return false;
    }
    if (!integer) {
        *(double *)member = value;
    } else if (param->bytes == sizeof(uint64_t)) {
        *(size_t *)member = (size_t)value;
    } else {
        *(int *)member = (int)value; /* int or uint32_t: both hold every value up to the bounds */
    }
    return true;
}

static bool set_name(dma_params_t *params, const dma_param_t *param, const char *text)
{
    const char *name;

    for (size_t i = 0; (name = param->value(i)); i++) {
        if (!strcmp(name, text)) {
            snprintf((char *)params + param->offset, param->bytes, "%s", name);
            return true;
        }
    }
    return false;
}

void dma_param_describe(const dma_param_t *param, char *text, size_t bytes)
{
    const char *name;
    size_t used;

    switch (param->kind) {
    case DMA_PARAM_KIND_INTEGER:
    case DMA_PARAM_KIND_REAL:
        snprintf(text, bytes, "%s%s from %.15g to %.15g", param->zero ? "0 or " : "",
                 param->kind == DMA_PARAM_KIND_INTEGER ? "an integer" : "a number", param->least, param->most);
        break;
    case DMA_PARAM_KIND_NAME:
        snprintf(text, bytes, "one of");
        for (size_t i = 0; (name = param->value(i)); i++) {
            used = strlen(text);
            snprintf(text + used, bytes - used, "%s %s", i ? "," : "", name);
        }
        break;
    case DMA_PARAM_KIND_PATH:
        snprintf(text, bytes, "a path");
        break;
    }
}

dma_status_t dma_param_set(dma_params_t *params, const dma_param_t *param, const char *text,
                           char why[DMA_PARAM_TEXT_BYTES])
{
    char allowed[DMA_PARAM_TEXT_BYTES / 2];

    if (param->kind == DMA_PARAM_KIND_PATH) {
        *(const char **)((char *)params + param->offset) = text[0] ? text : NULL;
        return DMA_OK;
    }
    if (param->kind == DMA_PARAM_KIND_NAME ? set_name(params, param, text[0] ? text : AUTO)
                                           : set_number(params, param, text)) {
        return DMA_OK;
    }
    dma_param_describe(param, allowed, sizeof(allowed));
    snprintf(why, DMA_PARAM_TEXT_BYTES, PREFIX "%s is \"%.60s\", which is not %s: the default, %s, is used instead",
             param->name, text, allowed, param->initial);
    return DMA_ERR_ARG;
}
