/* Reads C source: tokens, and where functions begin and end. */
#include "source.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *path)
{
    perror(path);
    exit(2);
}

void *grow(void *array, size_t n, size_t size)
{
    /* Sizes double at powers of two. */
    if (n & (n - 1)) {
        return array;
    }
    array = realloc(array, (n ? 2 * n : 1) * size);
    if (!array) {
        fail("memory");
    }
    return array;
}

char *read_text(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "r");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) {
        fail(path);
    }
    char *text = malloc((size_t)st.st_size + 1);
    if (!text) {
        fail(path);
    }
    *bytes = fread(text, 1, (size_t)st.st_size, f);
    text[*bytes] = 0;
    fclose(f);
    return text;
}

void write_text(const char *dir, const char *path, const char *text, size_t bytes)
{
    char full[4096];
    snprintf(full, sizeof(full), "%s/%s", dir, path);
    /* Replaces a link, and does not follow it. */
    unlink(full);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(full, 0777) && errno != EEXIST) {
            fail(full);
        }
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f)) {
        fail(full);
    }
}

bool token_is(const source_t *s, size_t i, const char *word)
{
    return i < s->ntokens && s->tokens[i].bytes == strlen(word) &&
           !memcmp(s->text + s->tokens[i].at, word, strlen(word));
}

bool tokens_equal(const source_t *a, size_t i, const source_t *b, size_t j)
{
    return a->tokens[i].bytes == b->tokens[j].bytes &&
           !memcmp(a->text + a->tokens[i].at, b->text + b->tokens[j].at, a->tokens[i].bytes);
}

bool is_identifier(const source_t *s, size_t i)
{
    if (i >= s->ntokens) {
        return false;
    }
    unsigned char c = (unsigned char)s->text[s->tokens[i].at];
    return isalpha(c) || c == '_';
}

size_t line_of(const source_t *s, size_t i)
{
    size_t line = 1;
    for (size_t at = 0; i < s->ntokens && at < s->tokens[i].at; at++) {
        line += s->text[at] == '\n';
    }
    return line;
}

size_t closing(const source_t *s, size_t i)
{
    int depth = 0;
    for (; i < s->ntokens; i++) {
        if (s->tokens[i].bytes == 1 && strchr("([{", s->text[s->tokens[i].at])) {
            depth++;
        } else if (s->tokens[i].bytes == 1 && strchr(")]}", s->text[s->tokens[i].at]) && --depth == 0) {
            return i;
        }
    }
    return i;
}

/* The number of bytes at p that are white space or a comment. */
static size_t blank(const char *p)
{
    if (isspace((unsigned char)*p)) {
        return 1;
    }
    if (p[0] == '\\' && p[1] == '\n') {
        return 2;
    }
    if (p[0] == '/' && p[1] == '/') {
        return strcspn(p, "\n");
    }
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? (size_t)(end + 2 - p) : strlen(p);
    }
    return 0;
}

static size_t token_bytes(const char *p)
{
    static const char *const punctuators[] = {"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
                                              "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##"};
    size_t n = 0;
    if (isalpha((unsigned char)*p) || *p == '_') {
        while (isalnum((unsigned char)p[n]) || p[n] == '_') {
            n++;
        }
        return n;
    }
    if (isdigit((unsigned char)*p)) {
        while (isalnum((unsigned char)p[n]) || p[n] == '.' || p[n] == '_') {
            n++;
        }
        return n;
    }
    if (*p == '"' || *p == '\'') {
        for (n = 1; p[n] && p[n] != *p; n++) {
            n += p[n] == '\\' && p[n + 1];
        }
        return p[n] ? n + 1 : n;
    }
    for (size_t i = 0; i < sizeof(punctuators) / sizeof(*punctuators); i++) {
        if (!strncmp(p, punctuators[i], strlen(punctuators[i]))) {
            return strlen(punctuators[i]);
        }
    }
    return 1;
}

static void find_tokens(source_t *s)
{
    bool directive = false, begins = true;
    for (size_t at = 0; at < s->bytes;) {
        size_t skip = blank(s->text + at);
        if (skip) {
            if (s->text[at] == '\n') {
                directive = false;
                begins = true;
            }
            at += skip;
            continue;
        }
        directive = directive || (begins && s->text[at] == '#');
        begins = false;
        s->tokens = grow(s->tokens, s->ntokens, sizeof(*s->tokens));
        s->tokens[s->ntokens++] = (token_t){at, token_bytes(s->text + at), directive};
        at += s->tokens[s->ntokens - 1].bytes;
    }
}

/* The token that opens what is closed at i. */
static size_t opening(const source_t *s, size_t i)
{
    int depth = 0;
    for (size_t at = i + 1; at-- > 0;) {
        depth += token_is(s, at, ")");
        if (token_is(s, at, "(") && --depth == 0) {
            return at;
        }
    }
    return 0;
}

static void find_functions(source_t *s)
{
    size_t first = 0;
    for (size_t i = 0; i < s->ntokens; i++) {
        if (s->tokens[i].directive || token_is(s, i, ";") || token_is(s, i, "}")) {
            first = i + 1;
        } else if (token_is(s, i, "{") && i && token_is(s, i - 1, ")")) {
            size_t open = opening(s, i - 1), end = closing(s, i);
            if (open && is_identifier(s, open - 1) && end < s->ntokens) {
                s->functions = grow(s->functions, s->nfunctions, sizeof(*s->functions));
                s->functions[s->nfunctions++] =
                    (function_t){.name = open - 1, .first = first, .body = i, .end = end + 1};
            }
            first = end + 1;
            i = end;
        } else if (token_is(s, i, "{") && i && s->text[s->tokens[i - 1].at] != '"') {
            /* Not for extern "C". */
            i = closing(s, i);
        }
    }
}

source_t source_of(const char *path, char *text, size_t bytes)
{
    source_t s = {.path = strdup(path), .text = text, .bytes = bytes};
    find_tokens(&s);
    find_functions(&s);
    return s;
}

static source_t *found;
static size_t nfound, root_bytes;

static int visit(const char *path, const struct stat *st, int type, struct FTW *where)
{
    const char *dot = strrchr(path, '.');
    (void)st;
    (void)where;
    if (type == FTW_F && dot && (!strcmp(dot, ".c") || !strcmp(dot, ".h"))) {
        size_t bytes;
        char *text = read_text(path, &bytes);
        found = grow(found, nfound, sizeof(*found));
        found[nfound++] = source_of(path + root_bytes + 1, text, bytes);
    }
    return 0;
}

/* The emulated driver is not part of the product. Tests rely on what it refuses. */
static const char emulated[] = "test/emu";

/* Folders of the product. The folders of transports end in _tl. */
static int is_product(const struct dirent *entry)
{
    const char *name = entry->d_name;
    size_t n = strlen(name);
    return !strcmp(name, "include") || !strcmp(name, "ompi_coll_dma") || !strcmp(name, "mpix") ||
           (n > 3 && !strcmp(name + n - 3, "_tl"));
}

source_t *read_sources(const char *root, size_t *n)
{
    struct dirent **folders;
    char path[4096];
    int nfolders = scandir(root, &folders, is_product, alphasort);
    if (nfolders < 0) {
        fail(root);
    }
    root_bytes = strlen(root);
    for (int i = 0; i < nfolders; i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]->d_name);
        if (nftw(path, visit, 16, FTW_PHYS) && errno) {
            fail(path);
        }
        free(folders[i]);
    }
    snprintf(path, sizeof(path), "%s/%s", root, emulated);
    if (nftw(path, visit, 16, FTW_PHYS) && errno) {
        fail(path);
    }
    free(folders);
    *n = nfound;
    return found;
}
