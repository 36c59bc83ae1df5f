/*
 * Open MPI's objects have the same size in its libraries and in the headers of the build, some of which are ours
 * (config/compat): a mutex of another size would move every member after it. Needs no mpirun.
 */
#include <stdio.h>

#include "component/compat.h"

typedef struct {
    const char *name;
    size_t library, headers;
} size_row_t;

#define ROW(type)                                                                                                      \
    {                                                                                                                  \
#type, type##_class.cls_sizeof, sizeof(type)                                                                   \
    }

int main(void)
{
    const size_row_t rows[] = {
        ROW(opal_mutex_t),
        ROW(opal_list_t),
        ROW(opal_convertor_t),
        ROW(ompi_request_t),
        ROW(ompi_coll_base_nbc_request_t),
        ROW(mca_coll_base_module_t),
        ROW(ompi_communicator_t),
        ROW(ompi_group_t),
        ROW(ompi_proc_t),
        ROW(ompi_datatype_t),
    };
    int wrong = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].library != rows[i].headers) {
            printf("%s: %zu bytes in the library, %zu in the headers\n", rows[i].name, rows[i].library,
                   rows[i].headers);
            wrong++;
        }
    }
    printf("layout: %zu sizes, %d wrong\n", sizeof(rows) / sizeof(rows[0]), wrong);
    return wrong ? 1 : 0;
}
