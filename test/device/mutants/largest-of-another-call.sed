# The choice goes by what ranks said in another call.
# file: ompi_coll_dma/device/comm.c
# run: sweep device 2 mi250x
s/(most = brief->largest > most \? brief->largest : most)/most = comm->rank ? brief->largest : most/
