#!/usr/bin/env python3
"""chrome_trace.py FILE [--ranks N] [--spent FILE] [--engine] [--ordered]: does FILE follow the rules of
the trace event format, and is it consistent? Prints the first error.

  - every event has a phase, a process and a thread, and every process and thread that has events has a name;
  - X events have a time and a duration; spans of one thread do not overlap, except that one encloses the other;
  - the times of a thread never go back;
  - every part of a call lies inside the call, and its phases add up to its duration within 5 %.

--spent FILE: lines "rank R spent US": the calls of rank R but the first took so long, within 5 %. --engine: there are spans of
engines. --ordered: no message arrives before it was sent."""

import argparse
import json
import sys


def must(good, *what):
    if not good:
        sys.exit("chrome_trace.py: " + " ".join(str(w) for w in what))


def check_thread(events):
    last, open_spans = None, []
    for e in events:
        must(last is None or e["ts"] >= last, "time goes back:", e)
        last = e["ts"]
        if e["ph"] != "X":
            continue
        while open_spans and open_spans[-1] <= e["ts"] + 1e-6:
            open_spans.pop()
        end = e["ts"] + e["dur"]
        must(not open_spans or end <= open_spans[-1] + 1e-6, "spans of a thread overlap:", e)
        open_spans.append(end)


def check_calls(events, names):
    calls = {}
    for e in events:
        if "control_us" in e["args"]:
            comm = names[e["pid"], e["tid"]].rpartition(": ")[0]
            calls[e["pid"], comm, e["args"]["call"]] = e
            a = e["args"]
            total = a["control_us"] + a["schedule_us"] + a["copy_us"] + a["synchronise_us"]
            must(abs(total - e["dur"]) <= max(0.05 * e["dur"], 0.01), "phases make", total, "of", e)
    for e in events:
        if "control_us" in e["args"]:
            continue
        comm = names[e["pid"], e["tid"]].rpartition(": ")[0]
        call = calls.get((e["pid"], comm, e["args"]["call"]))
        must(call, "no call for", e)
        end = e["ts"] + e.get("dur", 0)
        must(call["ts"] - 1e-6 <= e["ts"] and end <= call["ts"] + call["dur"] + 1e-6, e, "is outside of", call)
    return calls


def check_spent(path, calls, processes):
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if " spent " in line]
    must(lines, "nobody says what it has spent")
    for _, rank, _, us in lines:
        pid = next(p for p, name in processes.items() if name.startswith(f"rank {rank} on "))
        mine = sorted((e for (p, comm, _), e in calls.items() if p == pid and "inside the node" not in comm), key=lambda e: e["ts"])[1:]
        traced = sum(e["dur"] for e in mine)
        must(abs(traced - float(us)) <= 0.05 * float(us), "rank", rank, "spent", us, "us, the trace says", traced)


def check_messages(events, names, processes):
    """The k-th message from one rank to another was not received before it was sent."""
    ends = {}
    for e in events:
        words = e["name"].split()
        if len(words) == 3 and words[0] in ("to", "from") and words[1] == "rank":
            me, peer = int(processes[e["pid"]].split()[1]), int(words[2])
            pair = (me, peer, "to") if words[0] == "to" else (peer, me, "from")
            comm = names[e["pid"], e["tid"]].rpartition(": ")[0]
            ends.setdefault((comm, *pair), []).append(e)
    n = 0
    for (comm, source, target, way), sent in ends.items():
        if way == "to":
            received = ends.get((comm, source, target, "from"), [])
            for s, r in zip(sorted(sent, key=lambda e: e["ts"]), sorted(received, key=lambda e: e["ts"])):
                must(r["ts"] + r.get("dur", 0) >= s["ts"] - 0.5, "received before it was sent:", s, r)
                n += 1
    must(n, "there are no messages")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--spent")
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--ordered", action="store_true")
    options = parser.parse_args()
    with open(options.file, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    must(isinstance(events, list) and events, "no events")
    names, processes, threads, real = {}, {}, {}, []
    for e in events:
        must(isinstance(e.get("pid"), int) and isinstance(e.get("tid"), int) and isinstance(e.get("name"), str), "incomplete:", e)
        if e["ph"] == "M":
            must(e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str), "not a name:", e)
            if e["name"] == "process_name":
                processes[e["pid"]] = e["args"]["name"]
            else:
                names[e["pid"], e["tid"]] = e["args"]["name"]
            continue
        must(e["ph"] in ("X", "i"), "phase of", e)
        must(isinstance(e["ts"], (int, float)) and e["ts"] >= 0, "time of", e)
        must(e["ph"] != "X" or (isinstance(e["dur"], (int, float)) and e["dur"] >= 0), "duration of", e)
        must(e["ph"] != "i" or e["s"] == "t", "scope of", e)
        threads.setdefault((e["pid"], e["tid"]), []).append(e)
        real.append(e)
    for thread, its in threads.items():
        must(thread in names and thread[0] in processes, "no name for", thread)
        check_thread(its)
    calls = check_calls(real, names)
    must(calls, "no calls")
    must(options.ranks is None or len({p for p, _, _ in calls}) == options.ranks, "calls of", len(processes), "ranks")
    if options.spent:
        check_spent(options.spent, calls, processes)
    if options.engine:
        must(any(": engine" in names[t] for t in threads), "no engine in", sorted(set(names.values())))
    if options.ordered:
        check_messages(real, names, processes)
    print(f"{len(real)} events, {len(calls)} calls")


if __name__ == "__main__":
    main()
