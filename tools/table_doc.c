/* Documents with a table that a program makes: see table_doc.h. */
#include "table_doc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define END "<!-- end of table -->"

int table_doc_print(const char *path, const char *target, void (*print_table)(void))
{
    FILE *file = fopen(path, "r");
    bool inside = false;
    int tables = 0;
    char line[4096], begin[128];

    if (!file) {
        perror(path);
        return 1;
    }
    snprintf(begin, sizeof(begin), "<!-- table: made by `make -C build %s` -->", target);
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, END, strlen(END))) {
            inside = false;
        }
        if (!inside) {
            fputs(line, stdout);
        }
        if (!strncmp(line, begin, strlen(begin))) {
            print_table();
            inside = true;
            tables++;
        }
    }
    fclose(file);
    if (tables != 1 || inside) {
        fprintf(stderr, "%s must have one line \"%s\" and behind it \"%s\"\n", path, begin, END);
        return 1;
    }
    return 0;
}
