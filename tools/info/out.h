/*
 * A report in one of two forms: text for people, JSON for programs. The code that describes something writes both forms,
 * side by side: `out_say` is only for people, everything else only for programs. So neither form limits the other.
 */
#ifndef DMA_TOOLS_INFO_OUT_H
#define DMA_TOOLS_INFO_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OUT_DEPTH 16

typedef struct out {
    FILE *to;
    bool json;
    bool quiet; /* now nothing is printed for people */
    int depth;
    bool filled[OUT_DEPTH]; /* the object or array of that depth has a member */
    bool array[OUT_DEPTH];
} out_t;

void out_begin(out_t *o, FILE *to, bool json);
void out_end(out_t *o);

/* For people: a line, `indent` steps to the right. */
void out_say(out_t *o, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For programs. `key` is NULL in an array. */
void out_object(out_t *o, const char *key);
void out_array(out_t *o, const char *key);
void out_close(out_t *o);
void out_text(out_t *o, const char *key, const char *text); /* NULL: null */
void out_number(out_t *o, const char *key, uint64_t number);
/* UINT64_MAX, which stands for no limit, becomes null. */
void out_limit(out_t *o, const char *key, uint64_t number);
void out_real(out_t *o, const char *key, double number);
void out_bool(out_t *o, const char *key, bool value);

#endif
