/* mutate: breaks the product on purpose. test/mutants/README.md says what a table looks like.
 *
 *     mutate list TABLE...                       NAME MODULE BUILD TEST... of each mutant
 *     mutate stale ROOT TABLE...                 says which mutants no longer apply, and why
 *     mutate apply ROOT DIR NAME TABLE...        writes the changed files below DIR, and prints their paths
 *     mutate generate ROOT FILE [DIR ID]         mutants made by operators: lists them, or writes one
 *
 * Exit status: 0, 1 if mutants do not apply, 2 after errors. */
#include "mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *in;    /* a function; NULL: all of the product */
    char *before, *to; /* code */
} change_t;

typedef struct {
    const char *name, *module, *breaks, *build, *tests;
    change_t *changes;
    size_t nchanges;
} mutant_t;

static mutant_t *mutants;
static size_t nmutants;

static char *joined(const char *a, const char *b)
{
    char *all = malloc(strlen(a) + strlen(b) + 2);
    sprintf(all, "%s%s%s", a, *a ? "\n" : "", b);
    return all;
}

static char *module_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash ? slash + 1 : path);
    name[strcspn(name, ".")] = 0;
    return name;
}

static void wrong(const char *path, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", path, line, what);
    exit(2);
}

/* A line of a table: its first word, and the rest. */
static void read_line(const char *path, int line, const char *key, const char *rest)
{
    static const char *in;
    static char last;
    mutant_t *m = nmutants ? &mutants[nmutants - 1] : NULL;
    if (!strcmp(key, "mutant")) {
        mutants = grow(mutants, nmutants, sizeof(*mutants));
        mutants[nmutants++] =
            (mutant_t){.name = rest, .module = module_of(path), .breaks = "", .build = "plain", .tests = ""};
        in = NULL;
    } else if (!m) {
        wrong(path, line, "before the first mutant");
    } else if (!strcmp(key, "breaks")) {
        m->breaks = joined(m->breaks, rest);
    } else if (!strcmp(key, "build")) {
        m->build = rest;
    } else if (!strcmp(key, "tests") || !strcmp(key, "job")) {
        m->tests = rest;
    } else if (!strcmp(key, "in")) {
        in = rest;
    } else if (!strcmp(key, "-")) {
        if (last != '-') {
            m->changes = grow(m->changes, m->nchanges, sizeof(*m->changes));
            m->changes[m->nchanges++] = (change_t){.in = in, .before = "", .to = ""};
        }
        change_t *c = &m->changes[m->nchanges - 1];
        c->before = joined(c->before, rest);
    } else if (!strcmp(key, "+") && m->nchanges) {
        change_t *c = &m->changes[m->nchanges - 1];
        c->to = joined(c->to, rest);
    } else {
        wrong(path, line, key);
    }
    last = *key;
}

static void read_table(const char *path)
{
    size_t bytes;
    char *text = read_text(path, &bytes), *next;
    int number = 0;
    for (char *line = text; line && *line; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next) {
            *next++ = 0;
        }
        line += strspn(line, " ");
        if (*line == 0 || *line == '#') {
            continue;
        }
        char *rest = line + strcspn(line, " ");
        if (*rest) {
            *rest++ = 0;
            rest += strspn(rest, " ");
        }
        read_line(path, number, line, rest);
    }
}

char *edited(const source_t *s, size_t source, edit_t *edits, size_t nedits)
{
    size_t bytes = s->bytes + 1, at = 0, out = 0;
    for (size_t i = 0; i < nedits; i++) {
        bytes += strlen(edits[i].text);
    }
    char *text = malloc(bytes);
    /* There are few: in the order of their places, each time the next one. */
    for (;;) {
        const edit_t *next = NULL;
        for (size_t i = 0; i < nedits; i++) {
            if (edits[i].source == source && s->tokens[edits[i].first].at >= at &&
                (!next || edits[i].first < next->first)) {
                next = &edits[i];
            }
        }
        size_t end = next ? s->tokens[next->first].at : s->bytes;
        memcpy(text + out, s->text + at, end - at);
        out += end - at;
        if (!next) {
            text[out] = 0;
            return text;
        }
        memcpy(text + out, next->text, strlen(next->text));
        out += strlen(next->text);
        at = s->tokens[next->end - 1].at + s->tokens[next->end - 1].bytes;
    }
}

/* Where a change applies: the number of places, and the most tokens of it that match at any place. */
typedef struct {
    size_t functions, places, longest;
    edit_t edit;
} search_t;

static void search(search_t *f, const source_t *sources, size_t s, const source_t *code, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        size_t same = 0;
        while (same < code->ntokens && i + same < end && tokens_equal(&sources[s], i + same, code, same)) {
            same++;
        }
        if (same == code->ntokens) {
            f->places++;
            f->edit = (edit_t){.source = s, .first = i, .end = i + same};
        }
        f->longest = same > f->longest ? same : f->longest;
    }
}

/* In all functions of a name; without a name, everywhere. */
static search_t search_all(const source_t *sources, size_t nsources, const char *in, const source_t *code)
{
    search_t f = {0};
    for (size_t s = 0; s < nsources; s++) {
        if (!in) {
            search(&f, sources, s, code, 0, sources[s].ntokens);
        }
        for (size_t i = 0; in && i < sources[s].nfunctions; i++) {
            const function_t *fn = &sources[s].functions[i];
            if (token_is(&sources[s], fn->name, in)) {
                f.functions++;
                search(&f, sources, s, code, fn->first, fn->end);
            }
        }
    }
    return f;
}

static void report_stale(const mutant_t *m, const change_t *c, const source_t *code, const search_t *f)
{
    const char *in = c->in ? c->in : "the product";
    fprintf(stderr, "%s (%s.txt) is stale: ", m->name, m->module);
    if (f->places) {
        fprintf(stderr, "%zu places in %s have `%s`\n", f->places, in, c->before);
        return;
    }
    if (c->in && !f->functions) {
        fprintf(stderr, "there is no function %s, and ", in);
        in = "the product";
    }
    fprintf(stderr, "%s has no `%s`", in, c->before);
    if (f->longest < code->ntokens) {
        const token_t *t = &code->tokens[f->longest];
        fprintf(stderr, "; the longest match ends before `%.*s`", (int)t->bytes, code->text + t->at);
    }
    fprintf(stderr, "\n");
}

static bool resolve(const mutant_t *m, const change_t *c, const source_t *sources, size_t nsources, edit_t *edit)
{
    source_t code = source_of("", c->before, strlen(c->before));
    search_t f = search_all(sources, nsources, c->in, &code);
    if (c->in && !f.functions) {
        /* If a function was renamed, its code may still be found. */
        f = search_all(sources, nsources, NULL, &code);
        if (f.places == 1) {
            fprintf(stderr, "%s (%s.txt) applies, but there is no function %s: found on line %zu of %s\n", m->name,
                    m->module, c->in, line_of(&sources[f.edit.source], f.edit.first), sources[f.edit.source].path);
        }
    }
    if (code.ntokens == 0 || f.places != 1) {
        report_stale(m, c, &code, &f);
        return false;
    }
    *edit = f.edit;
    edit->text = c->to;
    return true;
}

/* With a directory, the changed files are written. */
static bool apply(const mutant_t *m, const source_t *sources, size_t nsources, const char *dir)
{
    edit_t *edits = calloc(m->nchanges + 1, sizeof(*edits));
    bool good = m->nchanges > 0 && *m->tests && *m->breaks;
    if (!good) {
        fprintf(stderr, "%s (%s.txt): no change, no tests, or no sentence\n", m->name, m->module);
    }
    for (size_t i = 0; i < m->nchanges; i++) {
        good = resolve(m, &m->changes[i], sources, nsources, &edits[i]) && good;
    }
    for (size_t s = 0; good && dir && s < nsources; s++) {
        bool touched = false;
        for (size_t i = 0; i < m->nchanges; i++) {
            touched = touched || edits[i].source == s;
        }
        if (touched) {
            char *text = edited(&sources[s], s, edits, m->nchanges);
            write_text(dir, sources[s].path, text, strlen(text));
            printf("%s\n", sources[s].path);
        }
    }
    return good;
}

static int usage(void)
{
    fprintf(stderr, "usage: mutate list TABLE... | stale ROOT TABLE... | apply ROOT DIR NAME TABLE... | "
                    "generate ROOT FILE [DIR ID]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    bool lists = !strcmp(verb, "list"), applies = !strcmp(verb, "apply");
    if (!strcmp(verb, "generate") && (argc == 4 || argc == 6)) {
        char path[4096];
        size_t bytes;
        snprintf(path, sizeof(path), "%s/%s", argv[2], argv[3]);
        char *text = read_text(path, &bytes);
        source_t s = source_of(argv[3], text, bytes);
        return generate(&s, argc == 6 ? argv[4] : NULL, argc == 6 ? argv[5] : NULL);
    }
    int tables = lists ? 2 : applies ? 5 : 3;
    if (argc <= tables || (!lists && !applies && strcmp(verb, "stale"))) {
        return usage();
    }
    for (int i = tables; i < argc; i++) {
        read_table(argv[i]);
    }
    size_t nsources = 0;
    source_t *sources = lists ? NULL : read_sources(argv[2], &nsources);
    bool good = true, found = false;
    for (size_t i = 0; i < nmutants; i++) {
        const mutant_t *m = &mutants[i];
        for (size_t j = 0; j < i && !applies; j++) {
            if (!strcmp(m->name, mutants[j].name)) {
                fprintf(stderr, "%s is there twice\n", m->name);
                good = false;
            }
        }
        if (lists) {
            printf("%s %s %s %s\n", m->name, m->module, m->build, m->tests);
        } else if (!applies || !strcmp(m->name, argv[4])) {
            found = true;
            good = apply(m, sources, nsources, applies ? argv[3] : NULL) && good;
        }
    }
    if (applies && !found) {
        fprintf(stderr, "there is no mutant %s\n", argv[4]);
        return 2;
    }
    return good ? 0 : 1;
}
