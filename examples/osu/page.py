"""What examples/osu/compare has measured, as text, as tables and as one HTML page with plots in it."""
import html
import math
import re
import textwrap

BLUE, GREY, RED, GREEN = "#1f5fbf", "#8a8a8a", "#b3261e", "#1b7f4b"
FEW = 5  # with fewer passes, nothing is decided
RIVALS = {"stock": "stock Open MPI", "nccl": "NCCL"}
SHORT = {"stock": "stock", "nccl": "NCCL"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 300, 62, 14, 16, 44
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff; max-width: 72rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; }
.answer { font-size: 1.2rem; margin: .4rem 0 1rem; } .small { color: #555; font-size: .9rem; }
table { border-collapse: collapse; font-size: .9rem; } th, td { padding: .2rem .7rem; text-align: right; }
.wide { overflow-x: auto; } .wide td, .wide th { white-space: nowrap; }
th { border-bottom: 1px solid #999; font-weight: 600; vertical-align: bottom; } tr:nth-child(even) td { background: #f4f5f7; }
table.facts td { text-align: left; vertical-align: top; background: none; } table.facts td:first-child { color: #555; white-space: nowrap; }
.pair { display: flex; flex-wrap: wrap; gap: 1rem; } .pair svg { flex: 1 1 24rem; height: auto; min-width: 0; }
.faster { color: #1b7f4b; font-weight: 600; } .slower { color: #b3261e; font-weight: 600; } .open { color: #555; }
.warn { border-left: 4px solid #b3261e; background: #fdf2f1; padding: .5rem .9rem; } details { margin: .5rem 0; }
code { font-size: .9em; background: #f0f1f3; padding: 0 .25em; }
svg text { font: 12px system-ui, sans-serif; fill: #333; }
"""


def in_lines(text):
    """A page in lines of readable length, broken where that changes nothing. Tools of distributions take a file with longer lines
    for one that was made of a source that is missing."""
    text = re.sub(r">(?=<(?:g|line|rect|polyline|polygon|path|circle|text|title|svg|div|details|table|tr|h2|p|ul|li)\b)", ">\n", text)
    return re.sub(r'points="([^"]*)"', lambda m: 'points="' + textwrap.fill(m.group(1), 120) + '"', text)


def short(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return str(size)


def number(us):
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def call(program):
    """osu_iallgather_persistent is MPI_..., as people know it."""
    name = program.removeprefix("osu_").removesuffix("_persistent")
    text = "MPI_" + name.capitalize()
    return text + (" (persistent)" if program.endswith("_persistent") else "")


def geometric_mean(values):
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def verdict(ratio, passes):
    """Is coll/dma faster in this cell? Not decided where 5 to 95 % of the passes contain 1, or by few passes."""
    _, low, high = ratio
    if passes < FEW:
        return "open"
    return "faster" if high < 1 else "slower" if low > 1 else "open"


class Axis:
    """Values on a line of the picture, by their logarithm."""

    def __init__(self, low, high, start, end):
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.end = start, end

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low or 1)
        return self.start + (self.end - self.start) * share

    def decades(self, steps=(1,)):
        first, last = math.floor(self.low) - 1, math.ceil(self.high) + 1
        values = [step * 10.0 ** power for power in range(first, last) for step in steps]
        return [v for v in values if self.low - 1e-9 <= math.log10(v) <= self.high + 1e-9]


def label(x, y, text, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'


def line(x1, y1, x2, y2, color="#ddd", more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{more}/>'


def band(points, color):
    """Between the second and the third of (x, low, high), and around a single point."""
    if len(points) == 1:
        x, low, high = points[0]
        return line(x, low, x, high, color)
    there = [f"{x:.1f},{low:.1f}" for x, low, _ in points]
    back = [f"{x:.1f},{high:.1f}" for x, _, high in reversed(points)]
    return f'<polygon points="{" ".join(there + back)}" fill="{color}" opacity="0.18"/>'


def curve(points, color, dashed=False):
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>{dots}'


def frame(title, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" font-family="sans-serif" font-size="12"><title>{html.escape(title)}</title>'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{body}</svg>')


def sizes_axis(cells):
    """The axis below, and its grid: at most nine labels."""
    sizes = [size for size, _, _ in cells]
    x = Axis(sizes[0], sizes[-1] if len(sizes) > 1 else sizes[0] * 2, LEFT + 10, WIDTH - RIGHT - 10)
    step = math.ceil(len(sizes) / 9)
    parts = []
    for size in sizes[::step]:
        parts.append(line(x.at(size), TOP, x.at(size), HEIGHT - BOTTOM))
        parts.append(label(x.at(size), HEIGHT - BOTTOM + 17, short(size)))
    parts.append(label((LEFT + WIDTH) / 2, HEIGHT - 8, "bytes of a block (what a rank sends to one other)"))
    return x, "".join(parts)


def plot_times(name, cells, rival):
    x, parts = sizes_axis(cells)
    values = [v for _, sides, _ in cells for s in sides.values() for v in s]
    y = Axis(min(values) / 1.2, max(values) * 1.2, HEIGHT - BOTTOM, TOP)
    steps = (1,) if len(y.decades()) > 2 else (1, 2, 5)
    for v in y.decades(steps):
        parts += line(LEFT, y.at(v), WIDTH - RIGHT, y.at(v)) + label(LEFT - 6, y.at(v) + 4, f"{v:g}", "end")
    parts += label(15, (TOP + HEIGHT - BOTTOM) / 2, "microseconds", "middle",
                   f' transform="rotate(-90 15 {(TOP + HEIGHT - BOTTOM) / 2})"')
    for side, color, dashed in ((rival, GREY, True), ("dma", BLUE, False)):
        parts += band([(x.at(size), y.at(s[side][1]), y.at(s[side][2])) for size, s, _ in cells], color)
        parts += curve([(x.at(size), y.at(s[side][0])) for size, s, _ in cells], color, dashed)
    for i, (text, color, dash) in enumerate((("with coll/dma", BLUE, ""), (RIVALS[rival], GREY, ' stroke-dasharray="6 4"'))):
        parts += line(LEFT + 16, TOP + 14 + 18 * i, LEFT + 44, TOP + 14 + 18 * i, color, f' stroke-width="2"{dash}')
        parts += label(LEFT + 50, TOP + 18 + 18 * i, text, "start")
    return frame(f"{call(name)}: microseconds by size", parts)


def plot_ratios(name, cells, passes, rival):
    x, parts = sizes_axis(cells)
    # There must be room for the words above and below all points.
    low = min(0.5, min(r[1] for _, _, r in cells))
    high = max(2, max(r[2] for _, _, r in cells))
    low, high = low / (high / low) ** 0.15, high * (high / low) ** 0.15
    y = Axis(low, high, HEIGHT - BOTTOM, TOP)
    parts += (f'<rect x="{LEFT}" y="{y.at(1):.1f}" width="{WIDTH - RIGHT - LEFT}" height="{HEIGHT - BOTTOM - y.at(1):.1f}" '
              f'fill="{GREEN}" opacity="0.07"/>')
    steps = (1, 2, 5) if high / low < 100 else (1,)
    for v in y.decades(steps):
        parts += line(LEFT, y.at(v), WIDTH - RIGHT, y.at(v)) + label(LEFT - 6, y.at(v) + 4, f"{v:g}", "end")
    parts += line(LEFT, y.at(1), WIDTH - RIGHT, y.at(1), "#333", ' stroke-width="1.5"')
    parts += label(15, (TOP + HEIGHT - BOTTOM) / 2, f"ratio: coll/dma / {SHORT[rival]}", "middle",
                   f' transform="rotate(-90 15 {(TOP + HEIGHT - BOTTOM) / 2})"')
    for size, _, (median, p5, p95) in cells:
        color = {"faster": GREEN, "slower": RED, "open": GREY}[verdict((median, p5, p95), passes)]
        parts += line(x.at(size), y.at(p5), x.at(size), y.at(p95), color, ' stroke-width="2"')
        parts += f'<circle cx="{x.at(size):.1f}" cy="{y.at(median):.1f}" r="4" fill="{color}"/>'
    halo = ' font-weight="600" stroke="#fff" stroke-width="4" paint-order="stroke"'
    parts += label(LEFT + 8, TOP + 14, f"above 1: {SHORT[rival]} is faster", "start", halo)
    parts += label(LEFT + 8, HEIGHT - BOTTOM - 8, "below 1: coll/dma is faster", "start", halo)
    return frame(f"{call(name)}: ratio by size", parts)


class Result:
    """facts: (name, text) of the run; cells: {program: [(bytes, {side: (median, 5 %, 95 %)}, the same of the ratio)]};
    skipped: {program: reason}; notes: what else the reader must know; rival: the other side, a name of RIVALS."""

    def __init__(self, facts, cells, skipped, notes, passes, rival):
        self.facts, self.cells, self.skipped, self.notes, self.passes, self.rival = facts, cells, skipped, notes, passes, rival
        self.ratios = [r for rows in cells.values() for _, _, r in rows]

    def mean(self, name):
        return geometric_mean([r[0] for _, _, r in self.cells[name]])

    def answer(self):
        if not self.ratios:
            return "Nothing could be measured."
        count = {what: sum(verdict(r, self.passes) == what for r in self.ratios) for what in ("faster", "slower", "open")}
        mean = geometric_mean([r[0] for r in self.ratios])
        return (f"With coll/dma, calls take {mean:.2f} of the time of {RIVALS[self.rival]}, as the geometric mean of {len(self.ratios)} cells "
                f"(an operation and a size). coll/dma is faster in {count['faster']}, slower in {count['slower']}, and "
                f"{count['open']} are not decided by {self.passes} pass{'es' if self.passes > 1 else ''}.")

    def plot(self, name):
        return plot_times(name, self.cells[name], self.rival)

    def text(self):
        lines = [self.answer(), ""]
        lines += [f"{name:28} {self.mean(name):6.3f}" for name in self.cells]
        lines += [f"{name:28} not run: {why}" for name, why in self.skipped.items()] + self.notes
        return "\n".join(lines)

    def tables(self):
        out = [f"# OSU's micro-benchmarks with coll/dma and with {RIVALS[self.rival]}", "", self.answer(), ""]
        out += [f"- {name}: {text}" for name, text in self.facts] + [f"- {note}" for note in self.notes]
        for name, rows in self.cells.items():
            out += ["", f"## {name}", "", f"| bytes | dma us | 5 % | 95 % | {SHORT[self.rival]} us | 5 % | 95 % | ratio | 5 % | 95 % |", "|" + "---|" * 10]
            for size, sides, ratio in rows:
                words = [number(v) for side in ("dma", self.rival) for v in sides[side]] + [f"{v:.3f}" for v in ratio]
                out.append(f"| {size} | " + " | ".join(words) + " |")
            out += ["", f"Geometric mean of the ratios: {self.mean(name):.3f}"]
        if self.skipped:
            out += ["", "## Not run", ""] + [f"- {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(out) + "\n"

    # ---- HTML ----

    def overview(self):
        rows = []
        for name, cells in self.cells.items():
            counts = [sum(verdict(r, self.passes) == what for _, _, r in cells) for what in ("faster", "slower", "open")]
            best, worst = min(r[0] for _, _, r in cells), max(r[0] for _, _, r in cells)
            mean = self.mean(name)
            kind = "open" if 2 * counts[2] > len(cells) else "faster" if mean < 1 else "slower"
            rows.append(f'<tr><td style="text-align:left"><a href="#{name}">{html.escape(call(name))}</a></td><td class="{kind}">{mean:.2f}</td>'
                        f"<td>{best:.2f}</td><td>{worst:.2f}</td>" + "".join(f"<td>{n}</td>" for n in counts) + "</tr>")
        return ('<div class="wide"><table><tr><th style="text-align:left">call</th><th>mean<br>ratio</th><th>best<br>size</th><th>worst<br>size</th>'
                "<th>sizes<br>faster</th><th>sizes<br>slower</th><th>sizes not<br>decided</th></tr>" + "".join(rows) + "</table></div>")

    def table(self, name):
        rows = []
        for size, sides, ratio in self.cells[name]:
            kind = verdict(ratio, self.passes)
            text = {"faster": "faster", "slower": "slower", "open": "not decided"}[kind]
            rows.append(f"<tr><td>{short(size)}</td>" +
                        "".join(f"<td>{number(sides[s][0])}</td><td>{number(sides[s][1])} – {number(sides[s][2])}</td>" for s in ("dma", self.rival)) +
                        f'<td class="{kind}">{ratio[0]:.2f}</td><td>{ratio[1]:.2f} – {ratio[2]:.2f}</td><td class="{kind}">{text}</td></tr>')
        return ("<details><summary>Numbers</summary><div class='wide'><table><tr><th>bytes</th><th>coll/dma, us</th><th>5 – 95 %</th>"
                f"<th>{SHORT[self.rival]}, us</th>"
                "<th>5 – 95 %</th><th>ratio</th><th>5 – 95 %</th><th>coll/dma is</th></tr>" + "".join(rows) + "</table></div></details>")

    def section(self, name):
        return (f'<h2 id="{name}">{html.escape(call(name))} <span class="small">{name}, mean ratio {self.mean(name):.2f}</span></h2>'
                f'<div class="pair">{plot_times(name, self.cells[name], self.rival)}'
                f'{plot_ratios(name, self.cells[name], self.passes, self.rival)}</div>{self.table(name)}')

    def unchecked(self):
        return ", except NCCL's: OSU has no check of them" if self.rival == "nccl" else ""

    def how(self):
        if self.rival == "nccl":
            return ("The programs are OSU's micro-benchmarks, unchanged: those for MPI with coll/dma, and those for NCCL in plain\n"
                    "buffers, which have the same loop, and call MPI_Iprobe while they wait for the stream. They ran")
        return "The programs are OSU's micro-benchmarks,\nunchanged. Each ran with coll/dma and without it"

    def not_run(self):
        if not self.skipped:
            return f"<h2>Not run</h2><p>Nothing: every program was run, and OSU's own check (<code>-c</code>) found all data right{self.unchecked()}.</p>"
        rows = "".join(f"<li><code>{name}</code>: {html.escape(why)}</li>" for name, why in self.skipped.items())
        return f"<h2>Not run</h2><p>These programs gave no times that could be used:</p><ul>{rows}</ul>"

    def html(self):
        facts = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in self.facts)
        notes = "".join(f'<p class="warn">{html.escape(note)}</p>' for note in self.notes)
        return in_lines(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>coll/dma beside {RIVALS[self.rival]}: OSU micro-benchmarks</title><style>{STYLE}</style></head><body>
<h1>coll/dma beside {RIVALS[self.rival]}</h1>
<p class="answer">{html.escape(self.answer())}</p>{notes}
<p>coll/dma is a component of Open MPI that carries out all-gathers and all-to-alls. {self.how()} in turn, {self.passes} time{"s" if self.passes > 1 else ""}, after OSU's own check of the data{" of coll/dma" if self.rival == "nccl" else ""}. A <b>ratio</b> is the
time with coll/dma divided by the time {"of NCCL" if self.rival == "nccl" else "without"}, of runs that followed each other: <span class="faster">below 1 coll/dma is
faster</span>, <span class="slower">above 1 {RIVALS[self.rival]} is</span>. A cell is <span class="open">not decided</span> if 1 lies between the
5 % and the 95 % of its ratios, and with less than {FEW} passes.</p>
{self.overview() if self.cells else ""}
<p class="small">The mean ratio is the geometric mean over all sizes. Times are the average over the ranks, as OSU prints it; of
non-blocking calls (MPI_I...) that of the communication without computing.</p>
{"".join(self.section(name) for name in self.cells)}
{"<p class='small'>Lines and points are medians over the passes; bands and bars reach from 5 to 95 %.</p>" if self.cells else ""}
{self.not_run()}
<h2>How it was measured</h2><table class="facts">{facts}</table>
</body></html>
""")
