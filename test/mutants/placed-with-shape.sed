# A persistent call with derived datatypes is packed at its first start only.
# file: ompi_coll_dma/core/channel.c
# build: plain
# tests: test_forms:any_form_of_any_operation
s/\(!call->in_place && !call->send.dense\)/false/
