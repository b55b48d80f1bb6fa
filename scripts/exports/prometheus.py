#!/usr/bin/env python3
"""Has prometheus_client's own parser read tarebench.prom in a directory, and holds its samples against windows.csv beside it.

    scripts/exports/prometheus.py DIR      Python with prometheus_client

Ends with 1 and says what differs.
"""
import csv
import importlib.metadata
import math
import pathlib
import sys

from prometheus_client.parser import text_string_to_metric_families

QUANTILES = {"0.5": "p50_ms", "0.9": "p90_ms", "0.95": "p95_ms", "0.99": "p99_ms", "0.999": "p999_ms"}


def main():
    directory = pathlib.Path(sys.argv[1])
    print(f"prometheus_client {importlib.metadata.version('prometheus_client')}")
    families = list(text_string_to_metric_families((directory / "tarebench.prom").read_text()))
    figures = {}
    for row in csv.DictReader((directory / "windows.csv").open(newline="")):
        if row["value"]:
            figures[row["cell"], row["window"], row["metric"], row["column"], row["statistic"]] = float(row["value"])
    wrong, held = [], 0
    for family in families:
        if family.type != "gauge" or not family.documentation:
            wrong.append(f"{family.name}: type {family.type}, help {family.documentation!r}")
        keys = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        if len(set(keys)) != len(keys):
            wrong.append(f"{family.name}: a sample stands twice")
        for sample in family.samples:
            if sample.timestamp is not None:
                wrong.append(f"{family.name}: a timestamp, which the textfile collector refuses")
            if family.name == "tarebench_latency_seconds":
                labels = sample.labels
                key = (labels["cell"], labels["window"], labels["metric"], labels["column"], QUANTILES[labels["quantile"]])
                if not math.isclose(sample.value * 1e3, figures.get(key, math.nan), rel_tol=1e-9):
                    wrong.append(f"{key}: {sample.value} s, windows.csv has {figures.get(key)} ms")
                held += 1
    published = sum(1 for key in figures if key[4] in QUANTILES.values() and "/" not in key[2])
    if held != published:
        wrong.append(f"{held} percentiles, windows.csv has {published}")
    if wrong:
        sys.exit("\n".join(["Prometheus does not agree:", *wrong]))
    print(f"prometheus_client reads {len(families)} families, {sum(len(f.samples) for f in families)} samples, and agrees")


if __name__ == "__main__":
    main()
