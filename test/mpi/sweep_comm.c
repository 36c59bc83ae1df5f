/* The communicators of the sweep. Every function is collective over the world of the calling thread. */
#include "sweep.h"

#include <stdlib.h>

_Thread_local MPI_Comm base_comm;
const char *const comm_kind_names[COMM_KINDS] = {"world", "dup", "split", "reversed", "subset", "merged"};

static MPI_Comm make_split(rng_t *rng)
{
    MPI_Comm comm;
    int colours = 1 + (int)rng_below(rng, 3), mine = 0, key = 0;
    for (int rank = 0; rank < world_size; rank++) {
        int colour = (int)rng_below(rng, colours);
        int order = (int)rng_below(rng, 100);
        if (rank == world_rank) {
            mine = colour;
            key = order;
        }
    }
    MPI_Comm_split(base_comm, mine, key, &comm);
    return comm;
}

static MPI_Comm make_subset(rng_t *rng)
{
    int *ranks = malloc((size_t)world_size * sizeof(*ranks));
    for (int i = 0; i < world_size; i++) { /* a random order, whose first few are taken */
        int j = (int)rng_below(rng, i + 1);
        ranks[i] = ranks[j];
        ranks[j] = i;
    }
    int members = 1 + (int)rng_below(rng, world_size);
    MPI_Group world, subset;
    MPI_Comm comm;
    MPI_Comm_group(base_comm, &world);
    MPI_Group_incl(world, members, ranks, &subset);
    MPI_Comm_create(base_comm, subset, &comm);
    MPI_Group_free(&subset);
    MPI_Group_free(&world);
    free(ranks);
    return comm;
}

static MPI_Comm make_merged(rng_t *rng)
{
    MPI_Comm half, inter, comm;
    int cut = 1 + (int)rng_below(rng, world_size - 1);
    bool high_first = rng_chance(rng, 50);
    bool high = world_rank >= cut;
    MPI_Comm_split(base_comm, high, world_rank, &half);
    MPI_Intercomm_create(half, 0, base_comm, high ? 0 : cut, 31999, &inter);
    MPI_Intercomm_merge(inter, high != high_first, &comm);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    return comm;
}

static void note_members(comm_t *c)
{
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
    c->world = malloc((size_t)c->size * sizeof(*c->world));
    int *ranks = malloc((size_t)c->size * sizeof(*ranks));
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    MPI_Group here, world;
    MPI_Comm_group(c->comm, &here);
    MPI_Comm_group(base_comm, &world);
    MPI_Group_translate_ranks(here, c->size, ranks, world, c->world);
    MPI_Group_free(&here);
    MPI_Group_free(&world);
    free(ranks);
}

void comm_make(comm_t *c, comm_kind_t kind, bool fresh, rng_t rng)
{
    if (kind == COMM_MERGED && world_size < 2) {
        kind = COMM_DUP;
    }
    *c = (comm_t){.kind = kind, .fresh = fresh, .comm = MPI_COMM_NULL};
    switch (kind) {
    case COMM_WORLD:
        c->comm = base_comm;
        break;
    case COMM_SPLIT:
        c->comm = make_split(&rng);
        break;
    case COMM_REVERSED:
        MPI_Comm_split(base_comm, 0, -world_rank, &c->comm);
        break;
    case COMM_SUBSET:
        c->comm = make_subset(&rng);
        break;
    case COMM_MERGED:
        c->comm = make_merged(&rng);
        break;
    default:
        MPI_Comm_dup(base_comm, &c->comm);
        break;
    }
    c->member = c->comm != MPI_COMM_NULL;
    if (c->member) {
        MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
        note_members(c);
    }
}

void comm_release(comm_t *c)
{
    if (c->comm != MPI_COMM_NULL && c->kind != COMM_WORLD) {
        MPI_Comm_free(&c->comm);
    }
}

void comm_free(comm_t *c)
{
    comm_release(c);
    free(c->world);
    c->world = NULL;
}
