"""Reads the output of coll_dma_bench, and compares runs that were measured side by side: ratios of the same pass, and the
confidence interval of their median."""
import math
import os
import re
import statistics


def interval(values):
    """95 % confidence interval of the median from order statistics; needs at least 6 values."""
    values, n = sorted(values), len(values)
    k, tail = 0, 0.5 ** n  # tail = P(fewer than k + 1 of n fall below the median)
    while tail <= 0.025:
        k += 1
        tail += math.comb(n, k) * 0.5 ** n
    if k == 0:
        return -math.inf, math.inf
    return values[k - 1], values[n - k]


def ratio(ours, theirs):
    """The median of ours / theirs over the passes, and its interval. The arguments are times by pass."""
    ratios = [t / theirs[i] for i, t in ours.items() if i in theirs]
    return statistics.median(ratios), *interval(ratios)


def find_bench(option):
    """Path of coll_dma_bench: as given, in the build of ./with-build, or in ./build."""
    here = os.path.dirname(os.path.abspath(__file__))
    tests = os.environ.get("DMA_TEST_BIN", os.path.join(here, "../../build/test/mpi"))
    return option or os.path.normpath(os.path.join(tests, "../../tools/bench/coll_dma_bench"))


def rows(text):
    """Rows (operation, ranks, bytes, avg, max) of an output of coll_dma_bench --full, for the communication alone."""
    operation, ranks = "", 0
    for line in text.splitlines():
        head = re.match(r"# (\w+): (\d+) ranks, ", line)
        word = line.split()
        if head:
            operation, ranks = head[1], int(head[2])
        elif word and word[0].isdigit():
            # OSU's columns of non-blocking calls begin with what overlap makes of them, and its parts.
            at = 6 if operation.startswith("i") else 1
            yield operation, ranks, int(word[0]), float(word[at]), float(word[at + 2])
