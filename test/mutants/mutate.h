/* Shared by mutate.c and generate.c. */
#ifndef MUTANTS_MUTATE_H
#define MUTANTS_MUTATE_H

#include "source.h"

/* One replacement: tokens first to end - 1 of a source become TEXT. */
typedef struct {
    size_t source, first, end;
    const char *text;
} edit_t;

/* The text of s with its edits applied. Edits of other sources are left out. */
char *edited(const source_t *s, size_t source, edit_t *edits, size_t nedits);

/* Lists the mutants that operators make of a source: ID FUNCTION:LINE CODE; with an ID, writes that one below DIR. */
int generate(const source_t *s, const char *dir, const char *id);

#endif
