"""A partitioned all-gather of libmpix_dma, by ctypes: each partition is sent as soon as it is filled, and used as soon as it has
come.

    mpirun -n 4 python3 partitions.py [--device]
"""
import ctypes
from ctypes import byref, c_int, c_void_p

import numpy
from mpi4py import MPI
from example import comm, count_wrong, end, for_mpi, rank, ranks

PARTS, LENGTH, TURNS = 8, 1000, 20
dma = ctypes.CDLL("libmpix_dma.so.0")
dma.MPIX_Pallgather_init.argtypes = [c_void_p, c_int, c_int, c_void_p] * 2 + [c_void_p, c_void_p, c_void_p]
dma.MPIX_Pready.argtypes = [c_int, c_void_p]
dma.MPIX_Parrived.argtypes = [c_void_p, c_int, c_void_p]


def must(error):
    if error:
        raise MPI.Exception(error)


def handle(thing):
    """What C calls an MPI_Comm, MPI_Datatype or MPI_Info: a pointer, in Open MPI."""
    return c_void_p.from_address(MPI._addressof(thing))


def address(array):
    return array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data


def made(turn, block, part):
    return turn + block * 1e-2 + part * 1e-4 + numpy.arange(LENGTH) * 1e-9


send, recv = for_mpi(numpy.zeros((PARTS, LENGTH))), for_mpi(numpy.full((ranks, PARTS, LENGTH), -1.0))
request, arrived = MPI.Prequest(), c_int()
here = c_void_p(MPI._addressof(request))
side = [PARTS, LENGTH, handle(MPI.DOUBLE)]
must(dma.MPIX_Pallgather_init(address(send), *side, address(recv), *side, handle(comm), handle(MPI.INFO_NULL), here))
wrong = 0
for turn in range(TURNS):
    request.Start()
    for part in reversed(range(PARTS)):
        send[part] = for_mpi(made(turn, rank, part))
        for_mpi(send[part])  # what was written on a device is complete
        must(dma.MPIX_Pready(part, handle(request)))
    for number in range(ranks * PARTS):
        arrived.value = 0
        while not arrived.value:
            must(dma.MPIX_Parrived(handle(request), number, byref(arrived)))
        block, part = divmod(number, PARTS)
        wrong += count_wrong(recv[block][part], made(turn, block, part))
    must(dma.MPIX_Wait(here, None))
must(dma.MPIX_Request_free(here))
end("partitions.py", TURNS * ranks * PARTS * LENGTH, wrong)
