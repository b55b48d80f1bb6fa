#!/usr/bin/env python3
"""Has pandas read the CSV files in a directory, and holds its percentiles of requests.csv and gaps.csv against windows.csv.

    scripts/exports/csv_files.py DIR      Python with pandas

Ends with 1 and says what differs.
"""
import math
import pathlib
import sys

import pandas


def main():
    directory = pathlib.Path(sys.argv[1])
    print(f"pandas {pandas.__version__}")
    requests, gaps, windows = (pandas.read_csv(directory / f"{name}.csv") for name in ("requests", "gaps", "windows"))
    wrong, held = [], 0
    ok = {name: table[(table.phase == "measured") & (table.outcome == "ok")]
          for name, table in (("requests", requests), ("gaps", gaps))}
    if len(requests) != requests.groupby(["cell", "window", "trace_id"]).ngroups:
        wrong.append("a request stands twice")
    figures = windows[windows.statistic.isin([f"p{p}_ms" for p in (50, 90, 95, 99, 999)]) & windows.value.notna()]
    for row in figures.itertuples():
        name = f"{row.metric}_{row.column}"
        table = ok["gaps"] if row.metric == "gap" else ok["requests"]
        if name not in table:
            continue
        of = table[(table.cell == row.cell) & (table.window == row.window)][name].dropna()
        q = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}[row.statistic]
        found = of.quantile(q) / 1e6
        held += 1
        if not math.isclose(found, row.value, rel_tol=1e-9, abs_tol=1e-9):
            wrong.append(f"{row.cell}/{row.window} {name} {row.statistic}: {found} ms, windows.csv has {row.value}")
    for table, columns in ((requests, ["error_text", "class", "model_echo", "flags"]), (windows, ["mark", "metric"])):
        for column in columns:
            formulas = table[column].dropna().astype(str).str.match(r"[=+\-@\t\r]")
            if formulas.any():
                wrong.append(f"{column}: a text that a spreadsheet runs")
    if wrong:
        sys.exit("\n".join(["pandas does not agree:", *wrong]))
    print(f"pandas reads {len(requests)} requests, {len(gaps)} token events, {len(windows)} figures; "
          f"{held} percentiles made anew agree")


if __name__ == "__main__":
    main()
