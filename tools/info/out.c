/* The two forms of a report: see out.h. */
#include "tools/info/out.h"

#include <inttypes.h>
#include <stdarg.h>

void out_begin(out_t *o, FILE *to, bool json)
{
    *o = (out_t){.to = to, .json = json};
    if (json) {
        fputc('{', to);
    }
}

void out_end(out_t *o)
{
    if (o->json) {
        fputs("\n}\n", o->to);
    }
    fflush(o->to);
}

void out_say(out_t *o, int indent, const char *format, ...)
{
    va_list args;

    if (o->json || o->quiet) {
        return;
    }
    fprintf(o->to, "%*s", 2 * indent, "");
    va_start(args, format);
    vfprintf(o->to, format, args);
    va_end(args);
    fputc('\n', o->to);
}

/* A text in quotes. Bytes that are not text are replaced. */
static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            fprintf(to, "\\%c", c);
        } else if (c < 0x20 || c > 0x7e) {
            fprintf(to, "\\u%04x", c);
        } else {
            fputc(c, to);
        }
    }
    fputc('"', to);
}

/* What comes before a value. */
static bool begin_value(out_t *o, const char *key)
{
    if (!o->json) {
        return false;
    }
    fprintf(o->to, "%s\n%*s", o->filled[o->depth] ? "," : "", o->depth + 1, "");
    o->filled[o->depth] = true;
    if (key) {
        put_text(o->to, key);
        fputc(':', o->to);
    }
    return true;
}

static void open_value(out_t *o, const char *key, bool array)
{
    if (begin_value(o, key)) {
        fputc(array ? '[' : '{', o->to);
        o->depth++;
        o->filled[o->depth] = false;
        o->array[o->depth] = array;
    }
}

void out_object(out_t *o, const char *key)
{
    open_value(o, key, false);
}

void out_array(out_t *o, const char *key)
{
    open_value(o, key, true);
}

void out_close(out_t *o)
{
    if (o->json) {
        fputc(o->array[o->depth] ? ']' : '}', o->to);
        o->depth--;
    }
}

void out_text(out_t *o, const char *key, const char *text)
{
    if (!begin_value(o, key)) {
        return;
    }
    if (text) {
        put_text(o->to, text);
    } else {
        fputs("null", o->to);
    }
}

void out_number(out_t *o, const char *key, uint64_t number)
{
    if (begin_value(o, key)) {
        fprintf(o->to, "%" PRIu64, number);
    }
}

void out_limit(out_t *o, const char *key, uint64_t number)
{
    if (number == UINT64_MAX) {
        out_text(o, key, NULL);
    } else {
        out_number(o, key, number);
    }
}

void out_real(out_t *o, const char *key, double number)
{
    if (begin_value(o, key)) {
        fprintf(o->to, "%.3f", number);
    }
}

void out_bool(out_t *o, const char *key, bool value)
{
    if (begin_value(o, key)) {
        fputs(value ? "true" : "false", o->to);
    }
}
