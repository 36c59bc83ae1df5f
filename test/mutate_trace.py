#!/usr/bin/env python3
"""mutate_trace.py TOOL [-n COUNT] [-s SEED] [--address-space MIB]: coll_dma_trace with files that are damaged on purpose.

Writes two files with every kind of event, from two hosts. COUNT times, a few of their bytes, fields or events are changed, and TOOL
reads them. It must end with status 0 or 1 and not with a signal, its output and the file for Chrome must be JSON, and its memory is
limited. If TOOL has a sanitizer, the address space cannot be limited: use 0. Each change is a function of SEED and of its number,
which is printed after a failure."""

import argparse
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile

HEAD, EVENT = 4096, 32
HEAD_FORMAT = "<QIiiIQQQ48s64s64sQ"
(NONE, COMM, TEXT, BEGIN, PLAN, ENTERED, MET, SUBMIT, COMMAND, CORES, LINE, STAMP, SEND, RECV, LOCAL, END, EARLY) = range(17)
MAGIC = 0x3265636172746D64
NUMBERS = (0, 1, 2, 31, 255, 256, 65535, 65536, 2**26 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**58 - 1, 2**58, 2**62,
           2**63 - 1, 2**63, 2**64 - 1)


def event(at, kind, comm=0, seq=0, a=0, b=0, detail=0):
    return struct.pack("<QBBHIQQ", at, kind, detail, comm, seq, a, b)


def call(seq, at, rank, by):
    peer = 1 - rank
    name = int.from_bytes(b"variant", "little")
    return [event(at, BEGIN, 0, seq, 4096, 0, seq % 4), event(at + 100, PLAN, 0, seq, name, 0, by),
            event(at + 150, ENTERED, 0, seq), event(at + 300, MET, 0, seq),
            event(at + 310, SUBMIT, 0, seq, 4096, at + 400, 0), event(at + 320, COMMAND, 0, seq, peer << 48 | 4096, 0, 1),
            event(at + 330, SEND, 0, seq, peer << 40 | 4096, at + 500, 1),
            event(at + 330, RECV, 0, seq, peer << 40 | 4096, at + 600, 1),
            event(at + 340, LOCAL, 0, seq, 2, at + 380), event(at + 410, CORES, 0, seq, at + 450, 30),
            event(at + 700, LINE, 0, seq, rank, 0, 1), event(0, STAMP, 0, seq, at // 10 + 41, at // 10 + 60, 1),
            event(0, EARLY, 0, seq, at // 10 + 20, at // 10 + 62, 2),
            event(at + 800, END, 0, seq)]


def trace(rank, calls=20):
    clock = 10**12 * (rank + 1)
    head = struct.pack(HEAD_FORMAT, MAGIC, EVENT, rank, 100 + rank, HEAD, clock, 10**18, 0, b"41-7", b"host%d" % rank,
                       b"clock %d" % rank, 0)
    events = [event(clock, COMM, 0, 0, rank << 32 | 2, 77), event(0x6D6D6F63, TEXT),
              event(clock, COMM, 1, 0, rank << 32 | 2, 78, 1)]
    for i in range(calls):
        events += call(i + 1, clock + 1000 * (i + 1), rank, i % 3)
    return bytearray(head.ljust(HEAD, b"\0") + b"".join(events))


def place(r, data):
    """A place in the file: in an event, rarely in the head."""
    if len(data) < HEAD + EVENT or r.random() < 0.05:
        return r.randrange(0, 232)
    return HEAD + EVENT * r.randrange((len(data) - HEAD) // EVENT)


def change(r, data):
    at, what = place(r, data), r.randrange(7)
    if what == 0:
        data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    elif what == 1:
        offset, form = r.choice(((0, "<Q"), (16, "<Q"), (24, "<Q"), (12, "<I"), (10, "<H"), (8, "<B"), (9, "<B")))
        if at + EVENT <= len(data):
            value = r.choice(NUMBERS) % 2**(8 * struct.calcsize(form))
            struct.pack_into(form, data, at + offset, value)
    elif what == 2:
        data[at:at + 8] = r.randbytes(8)
    elif what == 3:
        del data[at:at + EVENT * r.randrange(1, 5)]
    elif what == 4:
        data[at:at] = data[at:at + EVENT * r.randrange(1, 40)]
    elif what == 5:
        other = place(r, data)
        data[at:at + EVENT], data[other:other + EVENT] = data[other:other + EVENT], data[at:at + EVENT]
    elif r.random() < 0.1:
        del data[r.randrange(len(data)):]
    return data if len(data) > 300 else trace(0)


def crafted():
    """Files that once made the tool allocate gibibytes, or that mix up two communicators."""
    clock = 10**12
    first = trace(0, 0)
    jump = first + event(clock, BEGIN, 0, 0) + event(clock, BEGIN, 0, 2**26) + event(clock + 9, END, 0, 2**26)
    far = first + event(clock, COMM, 65535, 0, 2, 5) + event(clock, BEGIN, 65535, 2**32 - 1) + event(
        clock + 9, END, 65535, 2**32 - 1)
    twice = first + event(clock, COMM, 1, 0, 2, 5)
    return (("a call far behind the first", jump, 0, '"by":"cores","variant":"-"'),
            ("a communicator far behind the others", far, 0, '"by":"cores","variant":"-"'),
            ("two communicators with one number", twice, 1, "two communicators have one number"))


class Tool:
    def __init__(self, path, folder, mib):
        self.path, self.folder, self.mib = path, folder, mib

    def limit(self):
        if self.mib:
            resource.setrlimit(resource.RLIMIT_AS, (self.mib << 20, self.mib << 20))

    def run(self, files):
        for name, data in files.items():
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
        out = os.path.join(self.folder, "chrome.json")
        for way in ("--ranks",), ("--json", "--chrome", out):
            done = subprocess.run([self.path, *way, self.folder], capture_output=True, timeout=60, preexec_fn=self.limit,
                                  check=False)
            if done.returncode not in (0, 1):
                break
        text, said = done.stdout.decode(), done.stderr.decode("utf-8", "replace")
        if done.returncode not in (0, 1) or "no memory" in said or "Sanitizer" in said or "runtime error" in said:
            return None, f"status {done.returncode}: {said}"
        if done.returncode == 0:
            try:
                json.loads(text)
                with open(out, encoding="utf-8") as file:
                    json.load(file)
            except ValueError as error:
                return None, f"no JSON: {error}"
        return done.returncode, text + said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("-n", type=int, default=300)
    parser.add_argument("-s", type=int, default=1)
    parser.add_argument("--address-space", type=int, default=128)
    args = parser.parse_args()
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(args.tool, folder, args.address_space)
        for what, data, status, text in crafted():
            got, said = tool.run({"0.trace": data})
            if got != status or text not in said:
                sys.exit(f"mutate_trace.py: {what}: status {got}, {said}")
        os.remove(os.path.join(folder, "0.trace"))
        for i in range(args.n):
            r = random.Random(f"{args.s} {i}")
            files = {"0.trace": trace(0), "1.trace": trace(1)}
            for _ in range(r.choice((0, 1, 1, 2, 4, 16)) if i else 0):
                name = r.choice(("0.trace", "1.trace"))
                files[name] = change(r, files[name])
            got, said = tool.run(files)
            if got is None:
                sys.exit(f"mutate_trace.py: change {i} of seed {args.s}: {said}")
            good += got == 0
    if good < args.n // 2:
        sys.exit(f"mutate_trace.py: only {good} of {args.n} files could be read: the changes are too coarse")
    print(f"{args.n} damaged traces, {good} of them were read")


main()
