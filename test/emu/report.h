/*
 * What the emulated node has to say: violations of what hardware and driver demand, notes, and a trace.
 *
 * A violation is one line "violation: RULE: TEXT" on stderr and in EMU_LOG/PID.log, a note one line "note: TEXT" in that file
 * only. A test that asks whether there was a violation greps the files. With EMU_STRICT=1 a violation ends the process, so that
 * no test passes over one; with EMU_STRICT=0 the call fails or the queue halts, as the driver or the engine would have it.
 */
#ifndef EMU_REPORT_H
#define EMU_REPORT_H

/* Reports and, if strict, aborts. */
void emu_violation(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, but the caller ends the process, or a runtime that learns of the fault does. */
void emu_report(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emu_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emu_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
