"""The transposition of a matrix in Python, by one all-to-all with derived types, as a two-dimensional FFT needs it (fft2d.c).
The rows are spread over the ranks.

    mpirun -n 4 python3 transpose.py [--device]
"""
import numpy
from mpi4py import MPI

from example import comm, count_wrong, end, for_mpi, rank, ranks

ROWS = 30  # of each rank
n = ROWS * ranks
value = MPI.DOUBLE


def matrix(first_row):
    """The rows of a rank, of the whole matrix."""
    return (first_row + numpy.arange(ROWS))[:, None] * 1000.0 + numpy.arange(n)


def transposed(first_row):
    return numpy.arange(n) * 1000.0 + (first_row + numpy.arange(ROWS))[:, None]


# A block is sent row by row. Each row is received as a column. The extent of a column leads to the next block.
sent = value.Create_vector(ROWS, ROWS, n).Create_resized(0, ROWS * value.size).Commit()
column = value.Create_vector(ROWS, 1, n).Create_resized(0, value.size)
received = column.Create_contiguous(ROWS).Create_resized(0, ROWS * value.size).Commit()

source = for_mpi(matrix(rank * ROWS))
target = for_mpi(numpy.zeros((ROWS, n)))
comm.Alltoall([source, 1, sent], [target, 1, received])
end("transpose.py", ROWS * n, count_wrong(target, transposed(rank * ROWS)))
