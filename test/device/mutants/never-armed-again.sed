# Nothing is armed when a call is over.
# file: ompi_coll_dma/task/device_freeze.c
# run: counts
s/if \(!dc->may_arm \|\|/if (dc->epoch || !dc->may_arm ||/
