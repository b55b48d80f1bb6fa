#!/usr/bin/env python3
"""Has HdrHistogram's own Python code (hdrhistogram on PyPI, by the project of that name) read tarebench.hlog in a directory, and holds
its percentiles against requests.csv and gaps.csv beside it.

    scripts/exports/hlog.py DIR      Python with hdrhistogram

Ends with 1 and says what differs.
"""
import csv
import importlib.metadata
import pathlib
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader


def intervals(path):
    """(tag, start in s, length in s, histogram) of each line, by the reader's own rules."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        tag, start, length, largest, _ = line.split(",", 4)
        found.append((tag.removeprefix("Tag="), float(start), float(length), float(largest)))
    return found


def values(directory):
    """Values in ns by tag and window, of the ok requests that are not warm-up."""
    found = {}
    kept = lambda row: row["phase"] == "measured" and row["outcome"] == "ok"
    add = lambda row, metric, column, value: value != "" and found.setdefault(
        (f"cell{row['cell']}-{metric}-{column}", int(row["window"])), []).append(round(float(value)))
    for row in filter(kept, csv.DictReader((directory / "requests.csv").open(newline=""))):
        for metric in ("ttft", "ttfo", "e2e"):
            for column in ("gross", "tare", "net", "due"):
                add(row, metric, column, row[f"{metric}_{column}"])
        for metric in ("stall", "tpot"):
            for column in ("gross", "net"):
                add(row, metric, column, row[f"{metric}_{column}"])
    for row in filter(kept, csv.DictReader((directory / "gaps.csv").open(newline=""))):
        for column in ("gross", "net"):
            add(row, "gap", column, row[f"gap_{column}"])
    return found


def main():
    directory = pathlib.Path(sys.argv[1])
    path = directory / "tarebench.hlog"
    print(f"hdrhistogram {importlib.metadata.version('hdrhistogram')}")
    wrong, seen = [], {}
    told, lines = values(directory), intervals(path)
    reader = HistogramLogReader(str(path), HdrHistogram(1, 86_400_000_000_000, 3))
    histograms = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        histograms.append(histogram)
    reader.close()
    if len(histograms) != len(lines):
        wrong.append(f"{len(lines)} lines, {len(histograms)} histograms read")
    for (line_tag, start, length, largest), histogram in zip(lines, histograms):
        tag = histogram.get_tag()
        if tag != line_tag:
            wrong.append(f"{line_tag}: read as {tag}")
        plain = tag.removesuffix("-withheld")
        window = seen.setdefault(tag.split("-")[0], {}).setdefault((start, length), len(seen[tag.split("-")[0]]))
        want = sorted(v for v in told.get((plain, window), []) if v >= 0)
        if histogram.get_total_count() != len(want):
            wrong.append(f"{tag}, window {window}: {histogram.get_total_count()} values, requests tell {len(want)}")
            continue
        for q in (0.0, 50.0, 99.0, 100.0):
            # the value at or above which the rest lies, as a histogram counts
            rank = max(1, int(q / 100.0 * len(want) + 0.5))
            exact, read = want[rank - 1], histogram.get_value_at_percentile(q)
            if abs(read - exact) > max(1.0, exact * 2e-3):
                wrong.append(f"{tag}, window {window}: p{q} is {read}, the values say {exact}")
        if abs(largest * 1e6 - want[-1]) > max(1e3, want[-1] * 2e-3):
            wrong.append(f"{tag}, window {window}: the line's maximum is {largest} ms, the values say {want[-1] / 1e6}")
    # what the log processor does: adding up the intervals of a tag
    total = HdrHistogram(1, 86_400_000_000_000, 3)
    for histogram in histograms:
        total.add(histogram)
    if wrong:
        sys.exit("\n".join(["HdrHistogram does not agree:", *wrong]))
    print(f"HdrHistogram reads {len(histograms)} intervals of {len({h.get_tag() for h in histograms})} tags, "
          f"{total.get_total_count()} values, and agrees")


if __name__ == "__main__":
    main()
