/*
 * Messages of the emulated node: violations of rules of hardware and driver, notes, and a trace.
 *
 * A violation is a line "violation: RULE: TEXT" on stderr and in EMU_LOG/PID.log. A note is a line "note: TEXT" in that file
 * only. Tests look for violations in the files. With EMU_STRICT=1 a violation ends the process, so that no test ignores it.
 * With EMU_STRICT=0 the call fails or the queue halts, as with a real driver or engine.
 */
#ifndef EMU_REPORT_H
#define EMU_REPORT_H

/* Reports and, if strict, aborts. */
void emu_violation(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports only. The caller ends the process, or a runtime that gets the event of the fault does. */
void emu_report(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emu_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emu_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
