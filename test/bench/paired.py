"""What runs that were measured side by side say: ratios of the same pass, and how sure their median is."""
import math
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
    """Times by pass: the median of ours / theirs, and its interval."""
    ratios = [t / theirs[i] for i, t in ours.items() if i in theirs]
    return statistics.median(ratios), *interval(ratios)
