/*
 * print_plans VARIANT COLL RANKS [in-place]: the plans of all ranks, by the product's builder, as C for plans.c and poison.c.
 * COLL is the number of the operation (dma_coll_t).
 *
 * So the harnesses run real plans, and the checker does not follow how they are built. A builder looks at no size except
 * the depths and the bytes of a slot: the other sizes belong to the harness.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dma/plan.h"

#include "sizes.h"

static void print_len(const dma_len_t *l)
{
    printf("{%u, %u, %" PRIu64 "}", l->kind, l->part, l->len);
}

static void print_operand(const dma_operand_t *o)
{
    printf("{%u, %d, %d, %" PRIu64 "}", o->base, o->rank, o->block, o->offset);
}

static void print_op(const dma_op_t *op)
{
    printf("    {%u, %u, {%u, %d, %d}, %d, ", op->code, op->flags, op->flag.kind, op->flag.rank, op->flag.peer,
           op->value);
    print_len(&op->len);
    printf(", {");
    print_operand(&op->dst[0]);
    printf(", ");
    print_operand(&op->dst[1]);
    printf("}, ");
    print_operand(&op->src);
    printf("},\n");
}

static void print_plan(const dma_plan_t *plan, int rank)
{
    for (uint32_t i = 0; i < plan->nprogs; i++) {
        printf("static const dma_op_t ops_%d_%u[] = {\n", rank, i);
        for (uint32_t k = 0; k < plan->progs[i].nops; k++) {
            print_op(&plan->progs[i].ops[k]);
        }
        printf("};\n");
    }
    printf("static dma_prog_t progs_%d[] = {\n", rank);
    for (uint32_t i = 0; i < plan->nprogs; i++) {
        const dma_prog_t *p = &plan->progs[i];

        printf("    {%d, ops_%d_%u, %u, %u, %u, ", p->link, rank, i, p->nops, p->loop_first, p->loop_last);
        print_len(&p->loop_len);
        printf(", %d},\n", p->loop_only);
    }
    printf("};\n");
}

static void print_head(const dma_plan_t *plan, int rank)
{
    printf("    {%d, %d, %d, %d, %d, %d, %" PRIu64 ", %" PRIu64 ", %u, %u, progs_%d},\n", plan->coll, plan->rank,
           plan->nranks, plan->in_place, plan->streams, plan->gpu, plan->head, plan->fallback_max_bytes, plan->variant,
           plan->nprogs, rank);
}

int main(int argc, char **argv)
{
    dma_plan_req_t req = {.geom = GEOM, .cross_memory = true, .ranks_per_core_x16 = 16, .bytes = 8, .head = 8};
    int variant = argc >= 4 ? dma_variant_find(argv[1]) : -1;
    dma_plan_t *plans[16];

    if (variant < 0) {
        fprintf(stderr, "usage: print_plans VARIANT COLL RANKS [in-place]\n");
        return 2;
    }
    req.coll = (dma_coll_t)atoi(argv[2]);
    req.nranks = atoi(argv[3]);
    req.in_place = argc > 4;
    for (int r = 0; r < req.nranks; r++) {
        if (dma_variants[variant]->build(&req, r, &plans[r]) != DMA_OK) {
            return 1;
        }
        print_plan(plans[r], r);
    }
    printf("static const dma_plan_t plans[] = {\n");
    for (int r = 0; r < req.nranks; r++) {
        print_head(plans[r], r);
        dma_plan_free(plans[r]);
    }
    printf("};\n");
    return 0;
}
