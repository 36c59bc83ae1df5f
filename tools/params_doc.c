/*
 * The document of the parameters, from include/dma/params_table.h.
 *
 *     params_doc DOCUMENT     prints DOCUMENT with the table between its two marks replaced
 *     params_doc --numbers    prints a line "NAME DEFAULT LEAST MOST ZERO KIND" for each numeric parameter; ZERO is 1 if 0
 *                             is allowed although it is below LEAST, KIND is "integer" or "real"
 *     params_doc --defaults   prints a line "NAME DEFAULT" for each parameter
 *     params_doc --host-variants   prints the names of the algorithms for host memory
 */
#include <stdio.h>
#include <string.h>

#include "dma/params.h"
#include "dma/plan.h"
#include "table_doc.h"

/* A cell of the table has no "|". */
static void print_default(const dma_param_t *param)
{
    printf(" %s |", param->initial ? param->initial : "none");
}

static void print_range(const dma_param_t *param)
{
    const char *name;

    switch (param->kind) {
    case DMA_PARAM_KIND_INTEGER:
    case DMA_PARAM_KIND_REAL:
        printf(" %s%.15g to %.15g%s%s |", param->zero ? "0 or " : "", param->least, param->most,
               param->unit[0] ? " " : "", param->unit);
        break;
    case DMA_PARAM_KIND_NAME:
        for (size_t i = 0; (name = param->value(i)); i++) {
            printf("%s `%s`", i ? "," : "", name);
        }
        printf(" |");
        break;
    case DMA_PARAM_KIND_PATH:
        printf(" path |");
        break;
    }
}

static void print_table(void)
{
    printf("| parameter | default | values | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < DMA_PARAM_COUNT; i++) {
        const dma_param_t *param = &dma_param_table[i];

        printf("| `coll_dma_%s`%s |", param->name, param->agreed ? " \\*" : "");
        print_default(param);
        print_range(param);
        printf(" %s |\n", param->help);
    }
}

static int print_numbers(void)
{
    for (size_t i = 0; i < DMA_PARAM_COUNT; i++) {
        const dma_param_t *p = &dma_param_table[i];

        if (p->kind == DMA_PARAM_KIND_INTEGER || p->kind == DMA_PARAM_KIND_REAL) {
            printf("%s %s %.15g %.15g %d %s\n", p->name, p->initial, p->least, p->most, p->zero,
                   p->kind == DMA_PARAM_KIND_INTEGER ? "integer" : "real");
        }
    }
    return 0;
}

static int print_defaults(void)
{
    for (size_t i = 0; i < DMA_PARAM_COUNT; i++) {
        printf("%s %s\n", dma_param_table[i].name, dma_param_table[i].initial ? dma_param_table[i].initial : "");
    }
    return 0;
}

static int print_host_variants(void)
{
    for (int i = 0; dma_variants[i]; i++) {
        if (!dma_variants[i]->gpu) {
            printf("%s\n", dma_variants[i]->name);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: params_doc DOCUMENT | --numbers | --defaults | --host-variants\n");
        return 2;
    }
    if (!strcmp(argv[1], "--host-variants")) {
        return print_host_variants();
    }
    if (!strcmp(argv[1], "--numbers")) {
        return print_numbers();
    }
    return strcmp(argv[1], "--defaults") ? table_doc_print(argv[1], "params-doc", print_table) : print_defaults();
}
