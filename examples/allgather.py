"""All-gather in Python: blocking, in place, and non-blocking beside some work.

    mpirun -n 4 python3 allgather.py [--device]
"""
import numpy
from mpi4py import MPI

from example import comm, count_wrong, end, for_mpi, rank, ranks

BLOCK = 10000


def block_of(owner, turn):
    return numpy.arange(BLOCK, dtype=float) + (owner * 3 + turn) * BLOCK


def all_blocks(turn):
    return numpy.concatenate([block_of(owner, turn) for owner in range(ranks)])


gathered = for_mpi(numpy.zeros(ranks * BLOCK))
mine = for_mpi(block_of(rank, 0))
comm.Allgather(mine, gathered)
wrong = count_wrong(gathered, all_blocks(0))

blocks = numpy.zeros((ranks, BLOCK))
blocks[rank] = block_of(rank, 1)
gathered = for_mpi(blocks.reshape(-1))
comm.Allgather(MPI.IN_PLACE, gathered)
wrong += count_wrong(gathered, all_blocks(1))

mine = for_mpi(block_of(rank, 2))
request = comm.Iallgather(mine, gathered)
expected = all_blocks(2)  # the work
request.Wait()
wrong += count_wrong(gathered, expected)

end("allgather.py", 3 * ranks * BLOCK, wrong)
