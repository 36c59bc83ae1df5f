# Nothing is armed when a call is over.
# file: ompi_coll_dma/device/persistent.c
# run: counts
s/if \(!dc->may_arm \|\|/if (dc->epoch || !dc->may_arm ||/
