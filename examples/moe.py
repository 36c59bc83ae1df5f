"""A layer with a mixture of experts in Python, as moe.c: tokens go to the ranks of their experts and come back, by two
all-to-all-v.

    mpirun -n 4 python3 moe.py [--device]
"""
import numpy
from mpi4py import MPI

from example import comm, count_wrong, end, for_mpi, on_host, rank, ranks

TOKENS, WIDTH, EXPERTS = 200, 64, 2  # of each rank; values of a token; of each rank

tokens = numpy.random.default_rng(rank).integers(0, 1000, (TOKENS, WIDTH)).astype(float)
# The router prefers the first experts, so the blocks have very different sizes.
experts = (numpy.random.default_rng(ranks + rank).random(TOKENS) ** 3 * ranks * EXPERTS).astype(int)

# The tokens by rank; the number of their expert travels with each.
order = numpy.argsort(experts // EXPERTS, kind="stable")
travelling = numpy.concatenate([experts[order, None], tokens[order]], axis=1)
to = numpy.bincount(experts // EXPERTS, minlength=ranks).astype("i")
come = numpy.empty_like(to)
comm.Alltoall(to, come)

token = MPI.DOUBLE.Create_contiguous(WIDTH + 1).Commit()
own = for_mpi(travelling)
theirs = for_mpi(numpy.zeros((come.sum(), WIDTH + 1)))
comm.Alltoallv([own, to, token], [theirs, come, token])
work = on_host(theirs)
work[:, 1:] *= work[:, :1] + 2  # the work of the experts
theirs = for_mpi(work)
comm.Alltoallv([theirs, come, token], [own, to, token])
token.Free()

end("moe.py", TOKENS * WIDTH, count_wrong(own, travelling * numpy.where(numpy.arange(WIDTH + 1) > 0, travelling[:, :1] + 2, 1)))
