/*
 * A derived datatype may be freed as soon as the call that uses it has returned, even if that call was an *_init and much
 * later starts use the datatype. Open MPI itself does not keep it then. coll/dma does, whichever component serves the call.
 */
#include "../mpi/forms.h"

enum { REQUESTS = 8, STARTS = 4 };

/* The memory of a freed datatype is used for other objects. */
static void make_types(MPI_Datatype *types, int n)
{
    for (int i = 0; i < n; i++) {
        MPI_Type_vector(3 + i, 2, 5, MPI_DOUBLE, &types[i]);
        MPI_Type_commit(&types[i]);
    }
}

static void free_types(MPI_Datatype *types, int n)
{
    for (int i = 0; i < n; i++) {
        MPI_Type_free(&types[i]);
    }
}

int main(int argc, char **argv)
{
    enum { TENANTS = 32 };
    MPI_Datatype tenants[TENANTS];
    call_t *calls[REQUESTS];
    int outcome;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < REQUESTS; i++) {
        calls[i] = forms_make(MPI_COMM_WORLD, (op_t)(i % OPS), 20 << i, false, true);
        forms_init(calls[i], MPI_COMM_WORLD);
        forms_free_type(calls[i]);
    }
    make_types(tenants, TENANTS);
    for (int start = 0; start < STARTS; start++) {
        for (int i = 0; i < REQUESTS; i++) {
            forms_fill(calls[i], 10 * start + i);
            MPI_Start(&calls[i]->request);
        }
        for (int i = 0; i < REQUESTS; i++) {
            MPI_Wait(&calls[i]->request, MPI_STATUS_IGNORE);
            VERIFY(forms_right(calls[i]));
        }
    }
    for (int i = 0; i < REQUESTS; i++) {
        MPI_Request_free(&calls[i]->request);
        forms_free(calls[i]);
    }
    free_types(tenants, TENANTS);
    outcome = verify_summary("early", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
