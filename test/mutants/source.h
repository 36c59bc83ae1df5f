/* C source as a list of tokens, with the functions in it. Comments and white space are no tokens. */
#ifndef MUTANTS_SOURCE_H
#define MUTANTS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t at, bytes; /* in the text */
    bool directive;   /* part of a preprocessor directive */
} token_t;

/* Tokens first to end - 1 declare and define it. */
typedef struct {
    size_t name, first, body, end;
} function_t;

typedef struct {
    char *path; /* below the root */
    char *text;
    size_t bytes;
    token_t *tokens;
    size_t ntokens;
    function_t *functions;
    size_t nfunctions;
} source_t;

/* All memory lives as long as the program, which runs for a moment. Errors end the program. */
void *grow(void *array, size_t n, size_t size);
char *read_text(const char *path, size_t *bytes);
void write_text(const char *dir, const char *path, const char *text, size_t bytes);

source_t source_of(const char *path, char *text, size_t bytes);

/* The product's sources below ROOT: include, ompi_coll_dma, and the folders of transports. */
source_t *read_sources(const char *root, size_t *n);

bool token_is(const source_t *s, size_t i, const char *word);
bool tokens_equal(const source_t *a, size_t i, const source_t *b, size_t j);
bool is_identifier(const source_t *s, size_t i);
size_t line_of(const source_t *s, size_t i);
/* The token that closes the bracket at i; ntokens if there is none. */
size_t closing(const source_t *s, size_t i);

#endif
