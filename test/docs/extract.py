#!/usr/bin/env python3
"""extract.py FILE...: the commands of Markdown documents, one per line: FILE, a tab, the command.

Commands are in fenced blocks: every line of a block marked sh, and the lines of a block marked console that begin with
"$ ". A line that ends with a backslash continues in the next. A comment after a command begins with two spaces and "#".
"""
import re
import sys


def blocks(path):
    """The marks and lines of the fenced blocks."""
    mark, lines = None, []
    for line in open(path, encoding="utf-8").read().splitlines():
        fence = re.match(r"\s*```(\w*)$", line)
        if fence and mark is None:
            mark, lines = fence.group(1), []
        elif fence:
            yield mark, lines
            mark = None
        elif mark is not None:
            lines.append(line.strip())


def commands(mark, lines):
    text = "\n".join(lines).replace("\\\n", "")
    for line in text.splitlines():
        line = re.sub(r"\s{2,}#.*", "", line)
        if mark == "sh" and line:
            yield re.sub(r"\s+", " ", line)
        elif mark == "console" and line.startswith("$ "):
            yield re.sub(r"\s+", " ", line[2:])


for name in sys.argv[1:]:
    for block in blocks(name):
        for command in commands(*block):
            print(name, command, sep="\t")
