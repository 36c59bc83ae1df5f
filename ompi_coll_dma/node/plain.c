/* Where heap and stack of the process begin. */
#include "node/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_STATE 3 /* of /proc/self/stat, see proc(5): the first one after the name, which may contain anything */
#define FIELD_STACK 28
#define FIELD_HEAP  47

static uintptr_t field(const char *text, int wanted)
{
    for (int i = FIELD_STATE; text && i < wanted; i++) {
        text = strchr(text + 1, ' ');
    }
    return text ? (uintptr_t)strtoull(text, NULL, 10) : 0;
}

dma_plain_t dma_plain_read(void)
{
    dma_plain_t plain = {0};
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    const char *name_end;

    if (!file) {
        return plain;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    name_end = strrchr(text, ')');
    if (name_end && name_end[1]) {
        plain.stack_end = field(name_end + 1, FIELD_STACK);
        plain.heap_begin = field(name_end + 1, FIELD_HEAP);
    }
    return plain;
}
