#!/usr/bin/env python3
"""GuideLLM's own code reads an export: scripts/exports/guidellm.py DIR [--quick]

DIR holds benchmarks.json, in itself or below. Run it with the Python of an environment that has guidellm 0.8.1.

1. The report loads by GenerativeBenchmarksReport.load_file, and dumped again it is the same document: nothing dropped,
   nothing filled in by a default.
2. The requests of each benchmark, put into GuideLLM's accumulator, give by GenerativeMetrics.compile the metrics of the file,
   every figure (relative error at most 1e-9; values that are exact there are exact here).
3. GuideLLM prints it, and writes its CSV and HTML of it (`guidellm export`). Not with --quick.

Ends with 1 and words when one of these does not hold.
"""
import json
import math
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

# this file has the name of the package that it asks
sys.path.pop(0)

PINNED = "0.8.1"


def fail(words):
    print(f"guidellm: {words}")
    sys.exit(1)


def differences(ours, theirs, where=""):
    """What differs between two documents, as (path, ours, theirs)."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours or key not in theirs:
                yield f"{where}.{key}", ours.get(key, "absent"), theirs.get(key, "absent")
            else:
                yield from differences(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield where, f"{len(ours)} items", f"{len(theirs)} items"
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, f"{where}[{i}]")
    elif isinstance(ours, bool) or isinstance(theirs, bool) or not all(isinstance(v, (int, float)) for v in (ours, theirs)):
        if ours != theirs:
            yield where, ours, theirs
    elif not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12):
        yield where, ours, theirs


def figures(document):
    if isinstance(document, dict):
        return sum(map(figures, document.values()))
    if isinstance(document, list):
        return sum(map(figures, document))
    return isinstance(document, (int, float)) and not isinstance(document, bool)


def check(path, quick):
    from guidellm.benchmark.schemas import GenerativeBenchmarksReport
    from guidellm.benchmark.schemas.accumulator import GenerativeBenchmarkAccumulator, GenerativeBenchmarkTimings
    from guidellm.benchmark.schemas.metrics import GenerativeMetrics

    raw = json.loads(path.read_text())
    report = GenerativeBenchmarksReport.load_file(path)
    found = list(differences(raw, report.model_dump(mode="json")))
    if found:
        fail(f"{path}: loaded and dumped again {len(found)} places differ, first {found[0]}")
    recomputed = 0
    for number, (benchmark, ours) in enumerate(zip(report.benchmarks, raw["benchmarks"])):
        accumulator = GenerativeBenchmarkAccumulator(config=benchmark.config)
        accumulator.completed.requests_stats = benchmark.requests.successful
        accumulator.incomplete.requests_stats = benchmark.requests.incomplete
        accumulator.errored.requests_stats = benchmark.requests.errored
        times = benchmark.scheduler_metrics
        accumulator.timings = GenerativeBenchmarkTimings(
            request_start=times.measure_start_time, measure_start=times.measure_start_time,
            measure_end=times.measure_end_time, request_end=times.request_end_time,
        )
        theirs = GenerativeMetrics.compile(accumulator).model_dump(mode="json")
        found = list(differences(ours["metrics"], theirs, "metrics"))
        if found:
            fail(f"{path}: benchmark {number}: {len(found)} figures are not GuideLLM's own, first (path, ours, GuideLLM's): {found[:4]}")
        recomputed += figures(theirs)
    requests = sum(len(getattr(b.requests, s)) for b in report.benchmarks for s in ("successful", "incomplete", "errored"))
    print(f"guidellm: {path.name}: loads and dumps the same; {len(report.benchmarks)} benchmarks, {requests} requests; "
          f"{recomputed} figures of GenerativeMetrics.compile agree")
    if quick:
        return
    with tempfile.TemporaryDirectory() as out:
        tool = Path(sys.executable).with_name("guidellm")
        command = [str(tool), "export", str(path.resolve())]
        for kind in ("console", "csv", "html", "json"):
            command += ["--output", f"kind={kind}" + ("" if kind == "console" else f",path={out}/report.{kind}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=out)
        if done.returncode != 0:
            fail(f"{path}: guidellm export ended with {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
        sizes = {kind: Path(out, f"report.{kind}").stat().st_size for kind in ("csv", "html", "json")}
        print(done.stdout.strip())
        print(f"guidellm: export wrote {sizes} bytes")
        again = json.loads(Path(out, "report.json").read_text())
        if list(differences(raw, again)):
            fail("its own JSON of the report is not the same document")


def main():
    if len(sys.argv) < 2:
        fail("which directory? scripts/exports/guidellm.py DIR")
    if version("guidellm") != PINNED:
        fail(f"guidellm {version('guidellm')} is installed; the exports follow {PINNED}")
    paths = sorted(Path(sys.argv[1]).rglob("benchmarks.json"))
    if not paths:
        fail(f"{sys.argv[1]}: no benchmarks.json")
    for path in paths:
        if len(paths) > 1:
            print(f"guidellm: {path.relative_to(sys.argv[1])}")
        check(path, "--quick" in sys.argv[2:])
    print(f"guidellm {PINNED}: ok")


if __name__ == "__main__":
    main()
