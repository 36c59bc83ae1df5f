/* Reading EMU_HIDE; see hide.h. */
#include "hide.h"

#include "config.h"

#include <stddef.h>

bool emu_hide_read(const char *text, uint32_t *mask)
{
    *mask = 0;
    if (!text || !*text)
        return true;
    for (;; text++) {
        if (*text < '0' || *text >= '0' + EMU_MAX_GPUS)
            return false;
        *mask |= 1u << (*text - '0');
        if (*++text != ',')
            return *text == '\0';
    }
}
