#!/usr/bin/python3
"""Makes a summary of raw measurements: one row per cell instead of one per pass.

    tools/summarize.py --commit ID [--own NAME,...] [--rival GROUP=NAME,...] [--quantity NAME,...] [-o SUMMARY.csv] RAW.csv...

RAW.csv is what coll_dma_bench --csv (test/gpu/h200.sh), test/bench/compare and test/bench/between write. A cell is what a row
measures: operation, ranks, place, bytes, and whatever else the file has a column for (`note`). A configuration is the side
that was measured: one of ours (--own; default: ours, ours/ucx, dma, dma persistent), or a rival. Passes are repetitions of
the same cell and configuration.

Rivals are compared in groups. The default is one group, `best`, of all configurations that are not ours; the rival of a
cell is the one in the group with the lowest median. The columns of a summary are:

    run             name of the raw file, without .csv
    commit          the tree that was measured, as given by --commit
    operation, ranks, place, bytes, note            the cell
    passes, configuration, quantity                 repetitions, which of ours, what was measured (with its unit)
    median, p5, p95                                 ours, over the passes
    group, rival, rival_median, rival_p5, rival_p95 the group, its best, and that one's times
    ratio, ratio_p5, ratio_p95                      ours / rival of the same pass

With -o the rows are added to SUMMARY.csv, in the place of those of the same run, if there are any; else they go to stdout.
Files without a pass column, such as those of overlap and energy, become rows with one pass, rivals included.
"""
import argparse
import csv
import os
import statistics
import sys

CELL = ("operation", "ranks", "place", "bytes", "note")
HEADER = ("run", "commit", *CELL, "passes", "configuration", "quantity", "median", "p5", "p95",
          "group", "rival", "rival_median", "rival_p5", "rival_p95", "ratio", "ratio_p5", "ratio_p95")
TIMES = ("avg_us", "p50_us")
REPEATS = ("pass", "turn", "run")
SIDES = ("configuration", "mode")
OWN = ("ours", "ours/ucx", "dma", "dma persistent")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--commit", required=True, metavar="ID", help="the tree that was measured")
    p.add_argument("--own", metavar="NAME,...", help="configurations that are ours")
    p.add_argument("--rival", action="append", default=[], metavar="GROUP=NAME,...", help="a group of rivals")
    p.add_argument("--quantity", metavar="NAME,...", help="of files without passes: only these columns")
    p.add_argument("-o", "--output", metavar="SUMMARY.csv", help="add the rows to this file")
    p.add_argument("raw", nargs="+", metavar="RAW.csv")
    return p.parse_args()


def percentile(values, share):
    """With linear interpolation between the two nearest values."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def short(value):
    """Four significant digits, never in the form 1e+06."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{float(f'{value:.4g}'):g}"


def spread(values):
    """Median, 5th and 95th percentile; the last two are left out if there is one value."""
    if len(values) == 1:
        return [short(values[0]), "", ""]
    return [short(statistics.median(values)), short(percentile(values, 0.05)), short(percentile(values, 0.95))]


def columns_of(names):
    """Which columns are the side, the repetition, the quantities and the cell."""
    side = next((name for name in SIDES if name in names), None)
    if side is None and "build" in names:
        side = "build"
    repeats = [name for name in REPEATS if name in names]
    if side == "configuration" and "place" in names:  # there it is the place in the order of the pass
        names = [name for name in names if name != "place"]
    quantities = [name for name in TIMES if name in names]
    if not quantities:  # everything measured
        cell = {"operation", "collective", "place", "bytes", "ranks", "calls"}
        quantities = [name for name in names if name not in cell and name != side and name not in repeats]
    ignored = {side, "min_us", "max_us", "overall_us", "compute_us", *repeats, *quantities}
    return side, repeats, quantities, [name for name in names if name not in ignored]


def cell_of(row, names):
    """Values of CELL: columns with other names are joined in the note."""
    known = {"collective": "operation", "operation": "operation", "ranks": "ranks", "place": "place", "bytes": "bytes"}
    cell = dict.fromkeys(CELL, "")
    note = []
    for name in names:
        if name in known:
            cell[known[name]] = row[name]
        elif name != "calls":
            note.append(row[name] if name in ("piece", "note", "own_copy") else f"{name}={row[name]}")
    cell["note"] = " ".join(note)
    return tuple(cell[name] for name in CELL)


def read(path):
    """{(cell, quantity): {configuration: {pass: value}}}, in the order of the file."""
    with open(path, newline="") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        names = list(reader.fieldnames or [])
        side, repeats, quantities, cell_names = columns_of(names)
        if not quantities:
            sys.exit(f"summarize: {path}: no column that is known as a measurement")
        cells = {}
        for number, row in enumerate(reader, 2):
            try:
                values = {name: float(row[name]) for name in quantities}
            except (TypeError, ValueError):
                sys.exit(f"summarize: {path}: line {number}: not a number")
            key = tuple(row[name] for name in repeats)
            for name, value in values.items():
                sides = cells.setdefault((cell_of(row, cell_names), name), {})
                sides.setdefault(row[side] if side else "", {})[key] = value
    return cells


def best_of(sides, names):
    """The configuration with the lowest median, or None."""
    names = [name for name in names if name in sides]
    return min(names, key=lambda name: statistics.median(sides[name].values()), default=None)


def rows_of(own, sides, groups):
    """One row per configuration of ours and group of rivals."""
    for name in own:
        times = sides.get(name)
        if not times:
            continue
        row = [len(times), name, *spread(list(times.values()))]
        compared = 0
        for group, rivals in groups:
            rival = best_of(sides, rivals)
            pairs = [t / sides[rival][i] for i, t in times.items() if sides[rival].get(i)] if rival else []
            if pairs:
                compared += 1
                yield [*row, group, rival, *spread(list(sides[rival].values())), *spread(pairs)]
        if not compared:
            yield [*row, *[""] * 8]


def summarize(opt, path):
    run = os.path.basename(path)
    run = run[:-4] if run.endswith(".csv") else run
    own = opt.own.split(",") if opt.own else OWN
    quantities = opt.quantity.split(",") if opt.quantity else None
    for (cell, quantity), sides in read(path).items():
        if quantities and quantity not in quantities and quantity not in TIMES:
            continue
        groups = [(group, names.split(",")) for group, _, names in (text.partition("=") for text in opt.rival)]
        if quantity not in TIMES:  # nothing is compared
            for side, values in sides.items():
                yield [run, opt.commit, *cell, len(values), side, quantity, *spread(list(values.values())), *[""] * 8]
            continue
        for row in rows_of(own, sides, groups or [("best", [name for name in sides if name not in own])]):
            yield [run, opt.commit, *cell, *row[:2], quantity, *row[2:]]


def previous(path, runs):
    """Rows of a summary that there is, without those of these runs."""
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if not rows or tuple(rows[0]) != HEADER:
        sys.exit(f"summarize: {path} is no summary")
    return [row for row in rows[1:] if row[0] not in runs]


def main():
    opt = options()
    rows = []
    for path in opt.raw:
        try:
            rows += summarize(opt, path)
        except OSError as error:
            sys.exit(f"summarize: {error.filename}: {error.strerror}")
    if not opt.output:
        csv.writer(sys.stdout, lineterminator="\n").writerows([HEADER, *rows])
        return
    rows = previous(opt.output, {row[0] for row in rows}) + rows
    with open(opt.output, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
