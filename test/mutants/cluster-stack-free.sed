# Bytes of messages are no work for a core.
# file: ompi_coll_dma/plan/cluster/cost.c
# build: plain
# tests: test_cluster:testbed
s/return 2 \* \(n \* s->net->message_ps \+ transfer_ps\(bytes, s->net->stack_mbps\)\);/return 2 * n * s->net->message_ps;/
