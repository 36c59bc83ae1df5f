/* Lost signals; see lose.h. */
#include "lose.h"

#include <stdlib.h>
#include <string.h>

static const char *const whats[EMU_LOSE_KINDS] = {"fence", "trap", "doorbell", "read-pointer"};
static const char *const hows[EMU_LOSE_HOWS] = {"not", "drop", "late", "twice"};

const char *emu_lose_word(emu_lose_what_t what)
{
    return whats[what];
}

const char *emu_lose_how_word(emu_lose_how_t how)
{
    return hows[how];
}

/* Returns a bit for the word that begins the text: bit `first` + its index in `words`, or the bits of all words for "any". 0:
 * no such word. */
static unsigned bits(const char *text, size_t length, const char *const *words, int first, int n)
{
    unsigned mask = 0;

    for (int i = first; i < n; i++) {
        bool named = strlen(words[i]) == length && !strncmp(words[i], text, length);

        mask |= named || (length == 3 && !strncmp(text, "any", 3)) ? 1u << i : 0;
    }
    return mask;
}

/* Reads one rule and returns the text after it, or NULL. */
static const char *read_rule(const char *text, emu_lose_rule_t *rule)
{
    size_t how = strcspn(text, "-"), what;
    const char *at = text + how + (text[how] == '-');
    char *end;

    what = strcspn(at, ":");
    rule->how = bits(text, how, hows, EMU_LOSE_DROP, EMU_LOSE_HOWS);
    rule->what = bits(at, what, whats, 0, EMU_LOSE_KINDS);
    rule->gpu = -1;
    if (!rule->how || !rule->what || at[what] != ':') {
        return NULL;
    }
    rule->nth = strtoull(at + what + 1, &end, 10);
    if (rule->nth == 1 && *end == '/') {
        rule->nth = 0;
        rule->one_in = strtoull(end + 1, &end, 10);
    } else {
        rule->one_in = 0;
    }
    if (*end == ':') {
        rule->gpu = (int)strtol(end + 1, &end, 10);
        if (rule->gpu < 0 || rule->gpu >= EMU_LOSE_GPUS) {
            return NULL;
        }
    }
    return (rule->nth || rule->one_in) && (!*end || *end == ',') ? end : NULL;
}

bool emu_lose_read(const char *text, emu_lose_rules_t *rules)
{
    rules->n = 0;
    while (text && *text) {
        if (rules->n == EMU_LOSE_RULES || !(text = read_rule(text, &rules->rule[rules->n]))) {
            return false;
        }
        rules->n++;
        text += *text == ',';
    }
    return true;
}

/* splitmix64 */
static uint64_t below(uint64_t *state, uint64_t bound)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) % bound;
}

static emu_lose_how_t pick(unsigned mask, uint64_t *random)
{
    unsigned how;

    do {
        how = EMU_LOSE_DROP + (unsigned)below(random, EMU_LOSE_HOWS - EMU_LOSE_DROP);
    } while (!(mask >> how & 1));
    return (emu_lose_how_t)how;
}

emu_lose_how_t emu_lose(const emu_lose_rules_t *rules, emu_lose_t *state, emu_lose_what_t what, int gpu,
                        uint64_t *late_ns)
{
    uint64_t n;

    *late_ns = 0;
    if (!rules->n || gpu < 0 || gpu >= EMU_LOSE_GPUS) {
        return EMU_LOSE_NOT;
    }
    n = ++state->count[what][gpu];
    state->random ^= (uint64_t)gpu << 48; /* processes that use different GPUs differ */
    for (unsigned i = 0; i < rules->n; i++) {
        const emu_lose_rule_t *rule = &rules->rule[i];

        if (!(rule->what >> what & 1) || (rule->gpu >= 0 && rule->gpu != gpu)) {
            continue;
        }
        if (rule->nth ? rule->nth == n : below(&state->random, rule->one_in) == 0) {
            *late_ns = 1 + below(&state->random, rules->late_ns);
            return pick(rule->how, &state->random);
        }
    }
    return EMU_LOSE_NOT;
}
