/*
 * The check at the begin of every call of the thunk's API: is the thunk open, and is the topology acquired?
 */
#ifndef EMU_API_H
#define EMU_API_H

#include "process.h"
#include "thunk.h"

#include <stdbool.h>

/* Success, or the error that the call must return: the thunk is not open, or the topology was released (a violation). */
HSAKMT_STATUS emu_api_enter(const char *function);

#define EMU_API_ENTER()                                                                                                \
    do {                                                                                                               \
        HSAKMT_STATUS status_ = emu_api_enter(__func__);                                                               \
        if (status_ != HSAKMT_STATUS_SUCCESS)                                                                          \
            return status_;                                                                                            \
    } while (0)

#endif
