#!/usr/bin/env python3
"""json_ask.py SCHEMA: answers questions about documents of coll_dma_info, one after the other, because a start of Python takes
longer than a question. A question is a line with the number of further lines, and these: the file, and expressions that must be
true of it. Without expressions the question is whether it follows the schema. The answer is lines of text, and `yes` or `no`."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import json_schema


def names_of(d):
    """What expressions may use: d, the document, g, its GPUs, s, the engine sdma of the first GPU, and functions."""
    g = d["gpus"]
    s = g[0]["sdma"] if g else {}
    return {
        "d": d,
        "g": g,
        "s": s,
        "packets": lambda key: " ".join(p["name"] for p in s["packets"] if p[key]),
        "provider": lambda name: [p for p in s["providers"] if p["name"] == name][0],
        "packet": lambda name: [p for p in s["packets"] if p["name"] == name][0],
        "reasons": lambda: [m["reason"] for m in d["missing"]],
        "ways": lambda way: " ".join(k["kind"] for k in d["memory_kinds"] if k["way"] == way),
    }


def answer(schema, file, expressions):
    with open(file, encoding="utf-8") as text:
        d = json.load(text)
    if not expressions:
        json_schema.check(d, schema)
        return
    names = names_of(d)
    for expression in expressions:
        if not eval(expression, names):
            parts = (d["answer"], d["missing"], d["gpus"][:1], d["prediction"], d["job"])
            raise ValueError(f"not true: {expression}\n" + " ".join(json.dumps(part) for part in parts))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    for count in sys.stdin:
        lines = [sys.stdin.readline().rstrip("\n") for _ in range(int(count))]
        try:
            answer(schema, lines[0], lines[1:])
            print("yes", flush=True)
        except Exception as error:  # whatever is wrong with the document or the expression
            print(f"{type(error).__name__}: {error}\nno", flush=True)


if __name__ == "__main__":
    main()
