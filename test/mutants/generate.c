/* Mutants that operators make. Each is one small change, of a kind that programmers make by mistake. */
#include "mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *operator;
    size_t function, at, first, end; /* at: the token that it is about */
    const char *text;
} candidate_t;

static candidate_t *candidates;
static size_t ncandidates;

static void add(const char *operator, size_t function, size_t at, size_t first, size_t end, const char *text)
{
    candidates = grow(candidates, ncandidates, sizeof(*candidates));
    candidates[ncandidates++] =
        (candidate_t){.operator= operator, .function = function, .at = at, .first = first, .end = end, .text = text};
}

static char *text_of(const source_t *s, size_t first, size_t end)
{
    size_t at = s->tokens[first].at, to = s->tokens[end - 1].at + s->tokens[end - 1].bytes;
    return strndup(s->text + at, to - at);
}

static bool is_any_of(const source_t *s, size_t i, const char *const *words)
{
    for (; *words; words++) {
        if (token_is(s, i, *words)) {
            return true;
        }
    }
    return false;
}

/* Token i begins a statement. */
static bool begins_statement(const source_t *s, size_t i)
{
    static const char *const before[] = {";", "{", "}", NULL};
    static const char *const keywords[] = {"if", "for",  "while", "switch", "return", "goto",   "break", "continue",
                                           "do", "case", "else",  "const",  "static", "struct", "enum",  NULL};
    return (is_identifier(s, i) || token_is(s, i, "*")) && is_any_of(s, i - 1, before) && !is_any_of(s, i, keywords);
}

/* The semicolon that ends the statement at i, with the assignment that comes first, if the statement is an expression. */
static size_t statement_end(const source_t *s, size_t i, size_t *assignment)
{
    static const char *const assigns[] = {
        "=", "+=", "-=", "|=", "&=", "^=", "*=", "/=", "%=", "<<=", ">>=", "++", "--", NULL};
    *assignment = 0;
    for (; i < s->ntokens && !token_is(s, i, ";"); i++) {
        if (token_is(s, i, "{") || token_is(s, i, ":")) {
            return 0;
        }
        /* A declaration, whose initial value stays. */
        if (!*assignment && (is_identifier(s, i) || token_is(s, i, "*")) && is_identifier(s, i + 1)) {
            return 0;
        }
        if (token_is(s, i, "(") || token_is(s, i, "[")) {
            i = closing(s, i);
        } else if (!*assignment && is_any_of(s, i, assigns)) {
            *assignment = i;
        }
    }
    return i;
}

static void drop_statement(const source_t *s, size_t function, size_t i)
{
    size_t assignment, end = begins_statement(s, i) ? statement_end(s, i, &assignment) : 0;
    if (!end) {
        return;
    }
    if (assignment || !strncmp(s->text + s->tokens[i].at, "atomic_store", 12)) {
        add("store", function, i, i, end, "");
    } else if (token_is(s, i + 1, "(")) {
        add("call", function, i, i, end, "");
    }
}

static void change_token(const source_t *s, size_t function, size_t i)
{
    static const struct {
        const char *operator, * word, *text;
    } swaps[] = {{"order", "memory_order_release", "memory_order_relaxed"},
                 {"order", "memory_order_acquire", "memory_order_relaxed"},
                 {"order", "memory_order_acq_rel", "memory_order_relaxed"},
                 {"order", "memory_order_seq_cst", "memory_order_relaxed"},
                 {"order", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED"},
                 {"order", "__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED"},
                 {"bound", "<", "<="},
                 {"bound", "<=", "<"},
                 {"bound", ">", ">="},
                 {"bound", ">=", ">"},
                 {"logic", "&&", "||"},
                 {"logic", "||", "&&"}};
    for (size_t k = 0; k < sizeof(swaps) / sizeof(*swaps); k++) {
        if (token_is(s, i, swaps[k].word)) {
            add(swaps[k].operator, function, i, i, i + 1, swaps[k].text);
        }
    }
}

static void negate(const source_t *s, size_t function, size_t i)
{
    static const char *const conditions[] = {"if", "while", NULL};
    if (is_any_of(s, i, conditions) && token_is(s, i + 1, "(")) {
        size_t end = closing(s, i + 1) + 1;
        char *condition = text_of(s, i + 1, end), *text = malloc(strlen(condition) + 4);
        sprintf(text, "(!%s)", condition);
        add("negate", function, i, i + 1, end, text);
    }
}

/* Prints code in one line. */
static void print_code(const source_t *s, size_t first, size_t end)
{
    for (size_t i = first; i < end && i < first + 24; i++) {
        bool apart = i > first && s->tokens[i].at > s->tokens[i - 1].at + s->tokens[i - 1].bytes;
        printf("%s%.*s", apart ? " " : "", (int)s->tokens[i].bytes, s->text + s->tokens[i].at);
    }
}

int generate(const source_t *s, const char *dir, const char *id)
{
    for (size_t f = 0; f < s->nfunctions; f++) {
        for (size_t i = s->functions[f].body + 1; i < s->functions[f].end; i++) {
            if (!s->tokens[i].directive) {
                drop_statement(s, f, i);
                change_token(s, f, i);
                negate(s, f, i);
            }
        }
    }
    for (size_t c = 0; c < ncandidates; c++) {
        const candidate_t *x = &candidates[c];
        char own[64];
        size_t number = 1, name = s->functions[x->function].name;
        for (size_t k = 0; k < c; k++) {
            number += !strcmp(candidates[k].operator, x->operator);
        }
        snprintf(own, sizeof(own), "%s-%zu", x->operator, number);
        if (!id) {
            size_t end = x->at + 12 > x->end ? x->at + 12 : x->end;
            printf("%s %.*s:%zu ", own, (int)s->tokens[name].bytes, s->text + s->tokens[name].at, line_of(s, x->at));
            print_code(s, x->at > 4 && x->end == x->at + 1 ? x->at - 4 : x->at, end < s->ntokens ? end : s->ntokens);
            printf("\n");
        } else if (!strcmp(own, id)) {
            edit_t edit = {.first = x->first, .end = x->end, .text = x->text};
            char *text = edited(s, 0, &edit, 1);
            write_text(dir, s->path, text, strlen(text));
            printf("%s\n", s->path);
            return 0;
        }
    }
    return id ? 2 : 0;
}
