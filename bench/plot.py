#!/usr/bin/env python3
"""Draws the ratios of `scripts/bench --json FILE` as docs/developers/ratios.svg: a run is a dot, the median a bar, the floor
as a line.

    bench/plot.py FILE [--to SVG]
"""

import argparse
import json
import pathlib
import statistics
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LABELS, ROW, TOP = 760, 300, 44, 40
# The right edge is the speed of the C server.
SCALE = WIDTH - LABELS - 60


def text(x, y, words, anchor="start", size=13):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-family="sans-serif">{escape(words)}</text>')


def drawing(loads):
    height = TOP + ROW * len(loads) + 30
    widest = max([1.0] + [run["grantd"] / run["c"] for load in loads.values() for run in load["runs"]])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(LABELS, 22, "requests per second, of those of a C server in the same run", size=12)]

    def place(ratio):
        return LABELS + SCALE * ratio / widest
    for step in range(0, 11, 2):
        x = place(step / 10)
        parts.append(f'<line x1="{x:.0f}" y1="{TOP - 8}" x2="{x:.0f}" y2="{height - 24}" stroke="#ddd"/>')
        parts.append(text(x, height - 8, f"{step / 10:.1f}", "middle", 11))
    for number, (name, load) in enumerate(loads.items()):
        y = TOP + ROW * number
        ratios = [run["grantd"] / run["c"] for run in load["runs"]]
        middle = statistics.median(ratios)
        parts.append(text(LABELS - 10, y + 20, name, "end"))
        parts.append(f'<rect x="{LABELS}" y="{y + 6}" width="{place(middle) - LABELS:.1f}" height="18" fill="#7aa6d8"/>')
        parts += [f'<circle cx="{place(ratio):.1f}" cy="{y + 15}" r="2.5" fill="#1d3d66"/>' for ratio in ratios]
        x = place(load["wanted"])
        parts.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 30}" stroke="#c0392b" stroke-width="2"/>')
        parts.append(text(max(place(max(ratios)), x) + 8, y + 20, f"{middle:.2f}", size=12))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "docs" / "developers" / "ratios.svg", metavar="SVG")
    options = parser.parse_args()
    options.to.write_text(drawing(json.loads(options.file.read_text())["throughput"]["loads"]))


main()
