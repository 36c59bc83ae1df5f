/* Raising faults; see fault.h. */
#include "fault.h"

#include "config.h"
#include "event.h"
#include "process.h"
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void emu_fault_raise(uint32_t node, uint64_t va, bool read_only)
{
    emu_note("memory fault of GPU %d at %#llx", emu_gpu_of(node), (unsigned long long)va);
    if (!emu_event_raise_fault(node, va, read_only) && emu_config()->strict)
        abort();
}

void emu_fault_violation(uint32_t node, uint64_t va, const char *rule, const char *format, ...)
{
    char text[384];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emu_report(rule, "%s", text);
    if (emu_config()->strict)
        emu_fault_raise(node, va, false);
}
