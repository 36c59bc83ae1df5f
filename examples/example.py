"""What the Python examples share: arrays for MPI on the host or, with --device, on a GPU through CuPy, and the last line."""
import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
cupy = None
if "--device" in sys.argv:
    import cupy

    cupy.cuda.Device(comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank() % cupy.cuda.runtime.getDeviceCount()).use()


def for_mpi(array):
    """A copy where MPI is to use it. Complete when it returns."""
    if cupy is None:
        return array.copy()
    copy = cupy.asarray(array)
    cupy.cuda.get_current_stream().synchronize()
    return copy


def on_host(array):
    return array.copy() if cupy is None else cupy.asnumpy(array)


def end(name, checked, wrong):
    """Prints the sums over all ranks and ends the program with 1 if anything is wrong."""
    checked, wrong = comm.allreduce(int(checked)), comm.allreduce(int(wrong))
    if rank == 0:
        memory = "host" if cupy is None else "device"
        print(f"{name}: {ranks} ranks, {memory} memory, {checked} values checked, {wrong} wrong")
    sys.exit(1 if wrong or not checked else 0)


def count_wrong(array, expected):
    return numpy.count_nonzero(on_host(array) != expected)
