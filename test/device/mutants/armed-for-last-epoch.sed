# What is armed waits for the start that was.
# file: ompi_coll_dma/device/persistent.c
# run: counts
s/next\.epoch = dc->epoch \+ 1/next.epoch = dc->epoch/
