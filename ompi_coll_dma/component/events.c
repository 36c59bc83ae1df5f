/*
 * The events of dma/events.h as events of MPI_T, where Open MPI has them. Open MPI puts `ompi.coll_dma_` in front of their names.
 * A listener asks for MPI_T_CB_REQUIRE_THREAD_SAFE or more, because events come in any thread that calls MPI, with locks of ours
 * held. They come in no thread of ours: Open MPI takes events from a list that is safe only if the application has said that it has
 * several threads.
 */
#include "coll_dma.h"

#define OPERATION(id, text, ...) " " text

#ifdef DMA_HAVE_EVENTS

enum { ELEMENTS = 9, TEXT_BYTES = 1400 };

static mca_base_event_t *begin, *end;

static void raise_event(mca_base_event_t *event, const dma_event_t *what)
{
    mca_base_event_raise_internal(event, NULL, NULL, what, MCA_BASE_EVENT_CB_REQUIRE_THREAD_SAFE);
}

static void raise_begin(const dma_event_t *what)
{
    raise_event(begin, what);
}

static void raise_end(const dma_event_t *what)
{
    raise_event(end, what);
}

/* With what the numbers of variants stand for: the names of their counters. */
static void describe(char *text, const char *head)
{
    size_t n = (size_t)snprintf(text, TEXT_BYTES, "%s", head);
    dma_counter_t counter;

    for (size_t i = 0; dma_counter_describe(i, &counter) && n < TEXT_BYTES; i++) {
        if (counter.which >= DMA_COUNT_VARIANT && counter.which < DMA_COUNT_ENGINE) {
            n += (size_t)snprintf(text + n, TEXT_BYTES - n, " %d %s", counter.which - DMA_COUNT_VARIANT, counter.name);
        }
    }
}

static int register_event(const char *name, const char *head, mca_base_event_source_t *source, mca_base_event_t **event)
{
#define WORD(member)   offsetof(dma_event_t, member), MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG
#define NUMBER(member) offsetof(dma_event_t, member), MCA_BASE_VAR_TYPE_INT
    static const struct {
        ptrdiff_t at;
        mca_base_var_type_t type;
    } elements[ELEMENTS] = {{WORD(communicator)}, {WORD(sequence)}, {WORD(bytes)},     {WORD(predicted_ns)}, {WORD(ns)},
                            {NUMBER(operation)},  {NUMBER(form)},   {NUMBER(variant)}, {NUMBER(status)}};
#undef WORD
#undef NUMBER
    mca_base_var_type_t types[ELEMENTS];
    ptrdiff_t offsets[ELEMENTS];
    char text[TEXT_BYTES];
    int index;

    for (int i = 0; i < ELEMENTS; i++) {
        types[i] = elements[i].type;
        offsets[i] = elements[i].at;
    }
    describe(text, head);
    index =
        mca_base_component_event_register(&mca_coll_dma_component.super.collm_version, name, text, OPAL_INFO_LVL_9,
                                          ELEMENTS, types, offsets, NULL, MCA_BASE_VAR_BIND_NO_OBJECT, 0, source, NULL);
    return index < 0 ? index : mca_base_event_get_by_index(index, event);
}

int mca_coll_dma_register_events(void)
{
    static dma_events_t events = {.raise_begin = raise_begin, .raise_end = raise_end};
    mca_base_event_source_t *source;
    int rc =
        mca_base_event_source_register("coll_dma", "Calls that coll/dma carries out", MCA_BASE_EVENT_SOURCE_UNORDERED,
                                       1000000000, OPAL_COUNT_MAX, NULL, true, NULL);

    if (rc >= 0) {
        rc = mca_base_event_source_get_by_index(rc, &source);
    }
    if (OPAL_SUCCESS == rc) {
        rc = register_event(
            "call_begin",
            "A call has been posted. Elements: communicator, sequence, bytes of the largest block, predicted "
            "ns (0: not known), 0, operation, form, variant (-1: not known yet), 0. Operations, from 0 on:" DMA_COLLS(
                OPERATION) ". Forms: 0 blocking 1 non-blocking 2 persistent. "
                           "Variants:",
            source, &begin);
    }
    if (OPAL_SUCCESS == rc) {
        rc = register_event(
            "call_end",
            "A call has ended whose begin could be seen. Elements as for call_begin; the fifth is the time "
            "in ns, the last is 0 or what is wrong. Variants:",
            source, &end);
    }
    if (OPAL_SUCCESS == rc) {
        events.begin_listeners = (const volatile int32_t *)&begin->num_active;
        events.end_listeners = (const volatile int32_t *)&end->num_active;
        mca_coll_dma_component.events = &events;
    }
    return OMPI_SUCCESS; /* without events everything else works */
}

#else

int mca_coll_dma_register_events(void)
{
    return OMPI_SUCCESS;
}

#endif
