/* The thunk's API, for those who implement it: what <hsakmt.h> declares is exported. */
#ifndef EMU_THUNK_H
#define EMU_THUNK_H

#include "exports.h"

#pragma GCC visibility push(default)
#include <hsakmt.h>
#include <stddef.h>
#pragma GCC visibility pop

#endif
