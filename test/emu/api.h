/*
 * What every call of the thunk's API shares: is the channel open, was the topology released?
 */
#ifndef EMU_API_H
#define EMU_API_H

#include "process.h"
#include "thunk.h"

#include <stdbool.h>

/* Success, or what the call must return: not open, or the topology was released under it (a violation). */
HSAKMT_STATUS emu_api_enter(const char *function);

#define EMU_API_ENTER()                                                                                                \
    do {                                                                                                               \
        HSAKMT_STATUS status_ = emu_api_enter(__func__);                                                               \
        if (status_ != HSAKMT_STATUS_SUCCESS)                                                                          \
            return status_;                                                                                            \
    } while (0)

#endif
