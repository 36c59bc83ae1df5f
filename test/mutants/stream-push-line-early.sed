# Pushes are said to be there before they are.
# file: ompi_coll_dma/engine/stream/engine.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/^        status = signal_lines\(b, PUSHES\);/        write_lines(b, PUSHES);/
