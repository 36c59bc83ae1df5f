/* Sizes of the shared memory of the harnesses: a word in each buffer, and few buffers. */
#ifndef MODEL_SIZES_H
#define MODEL_SIZES_H

#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif
/* Cells of 16 bytes in the slots of up to three ranks, and heads of 8 bytes behind the 16 of all-to-all-v. */
#define GEOM                                                                                                           \
    {                                                                                                                  \
        .ring_depth = DEPTH, .slot_bytes = 64, .chunk_bytes = 8, .chunk_depth = BUFFERS, .pair_bytes = 8 * BUFFERS,    \
        .pair_depth = BUFFERS                                                                                          \
    }

#endif
