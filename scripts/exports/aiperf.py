#!/usr/bin/env python3
"""AIPerf's own code reads an export: scripts/exports/aiperf.py DIR [--quick]

DIR holds directories with profile_export_aiperf.json and profile_export.jsonl. Run it with the Python of an environment that
has aiperf 0.13.0.

1. Each summary loads as JsonExportData, its input_config as BenchmarkConfig, each line as MetricRecordInfo; dumped again as
   AIPerf dumps them they are the same documents: nothing dropped, nothing filled in.
2. From the moments in each line (first token, gaps, usage) a ParsedResponseRecord is made and goes through AIPerf's
   MetricRecordProcessor: every metric of the line, no more and no fewer.
3. What comes of it goes through AIPerf's MetricsAccumulator, phase by phase: every figure of the summary and of warmup_metrics
   (relative error at most 1e-9, since moments are rounded to whole ns again).
4. `aiperf plot` makes its pictures of each directory, and of all together. Not with --quick. It needs a Chrome that kaleido
   finds (BROWSER_PATH).

Ends with 1 and words when one of these does not hold.
"""
import asyncio
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

# this file has the name of the package that it asks
sys.path.pop(0)

PINNED = "0.13.0"
# figures of AIPerf that an export leaves out, see src/export/aiperf: curves over time, a sum, what needs the text of an error
LEFT_OUT = ("effective_", "active_", "tokens_in_flight", "usage_total_tokens", "context_overflow_count")


def fail(words):
    print(f"aiperf: {words}")
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
    elif not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9):
        yield where, ours, theirs


def without_nulls(document):
    if isinstance(document, dict):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    return [without_nulls(value) for value in document] if isinstance(document, list) else document


def must(where, found):
    found = list(found)
    if found:
        fail(f"{where}: {len(found)} places differ (path, ours, AIPerf's), first {found[:4]}")


def figures(document):
    if isinstance(document, dict):
        return sum(map(figures, document.values()))
    return isinstance(document, (int, float)) and not isinstance(document, bool)


def parsed(record, streaming):
    """A line as AIPerf has it before metrics are made of it: responses with their moments, usage, error."""
    from aiperf.common.models.record_models import (
        ParsedResponse, ParsedResponseRecord, ReasoningResponseData, RequestRecord, TextResponseData, TokenCounts,
    )
    from aiperf.common.models.usage_models import Usage

    meta = record.metadata
    value = lambda tag: record.metrics[tag].value if tag in record.metrics else None
    ns = lambda ms: round(ms * 1e6)
    start = 1_000_000_000
    responses = []
    if record.error is None:
        moments = [ns(value("request_latency"))]
        if streaming and value("time_to_first_token") is not None:
            moments = [ns(value("time_to_first_token"))]
            for gap in value("inter_chunk_latency") or []:
                moments.append(moments[-1] + ns(gap))
        answer = ns(value("time_to_first_output_token")) if value("time_to_first_output_token") is not None else None
        for at in moments:
            thinking = streaming and (answer is None or at < answer)
            data = ReasoningResponseData(reasoning="x") if thinking else TextResponseData(text="x")
            responses.append(ParsedResponse(perf_ns=start + at, data=data))
    prompt, completion, reasoning = (value(f"usage_{name}_tokens") for name in ("prompt", "completion", "reasoning"))
    if completion is not None or prompt is not None:
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        if reasoning is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
        if value("usage_prompt_cache_read_tokens") is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": value("usage_prompt_cache_read_tokens")}
        usage = Usage({key: part for key, part in usage.items() if part is not None})
        responses.append(ParsedResponse(perf_ns=responses[-1].perf_ns, data=None, usage=usage))
        # InferenceResultParser._compute_server_token_counts
        output = None if usage.completion_tokens is None else max(0, usage.completion_tokens - (usage.reasoning_tokens or 0))
        counts = TokenCounts(input=usage.prompt_tokens, reasoning=usage.reasoning_tokens, output=output)
    else:
        counts = TokenCounts()
    request = RequestRecord(
        timestamp_ns=meta.request_start_ns, start_perf_ns=start,
        end_perf_ns=max(start + 1, start + meta.request_end_ns - meta.request_start_ns), error=record.error,
    )
    return ParsedResponseRecord(request=request, responses=responses, token_counts=counts)


async def recomputed(config, records, where):
    from aiperf.common.accumulator_protocols import ExportContext
    from aiperf.config.resolution.plan import BenchmarkRun
    from aiperf.metrics.accumulator import MetricsAccumulator
    from aiperf.metrics.metric_registry import MetricRegistry
    from aiperf.exporters.metrics_base_exporter import MetricsBaseExporter
    from aiperf.post_processors.metric_record_processor import MetricRecordProcessor

    run = BenchmarkRun(benchmark_id="check", cfg=config, artifact_dir=Path(tempfile.gettempdir()), trial=0)
    processor, accumulator = MetricRecordProcessor(run=run), MetricsAccumulator(run=run)
    for number, record in enumerate(records):
        data = await processor.process_record(parsed(record, config.endpoint.streaming), record.metadata)
        ours = {tag: value.model_dump() for tag, value in record.metrics.items()}
        theirs = {tag: value.model_dump() for tag, value in data.metrics_display().items()} if hasattr(
            data, "metrics_display") else display(data.metrics)
        # moments of a line are whole ns: a total of usage is not in rows
        theirs.pop("usage_total_tokens", None)
        theirs.pop("usage_prompt_cache_read_pct", None)
        must(f"{where}: line {number + 1}", differences(ours, theirs, "metrics"))
        await accumulator.process_record(data)
    results = {}
    for phase in ("profiling", "warmup"):
        of = [record.metadata for record in records if str(record.metadata.benchmark_phase) == phase]
        if not of:
            continue
        context = ExportContext(
            start_ns=min(m.credit_issued_ns for m in of), end_ns=max(m.request_end_ns for m in of), phase=of[0].benchmark_phase,
        )
        summary = await accumulator.export_results(context)
        shown = MetricsBaseExporter._prepare_metrics(None, list(summary.results.values()))
        results[phase] = {tag: result.to_json_result().model_dump(exclude_none=True) for tag, result in shown.items()}
    return results


def display(metrics):
    from aiperf.metrics.metric_dicts import MetricRecordDict
    from aiperf.metrics.metric_registry import MetricRegistry

    return {tag: value.model_dump() for tag, value in MetricRecordDict(metrics).to_display_dict(MetricRegistry).items()}


def finite(document):
    """As AIPerf writes it: what is infinite is null, here left out like every null."""
    from aiperf.common.finite import scrub_non_finite

    return without_nulls(scrub_non_finite(document))


def compare(where, ours, theirs):
    extra = [tag for tag in theirs if tag not in ours and not tag.startswith(LEFT_OUT) and "usage_total_tokens" not in tag]
    if extra:
        fail(f"{where}: AIPerf would write {extra} too")
    for tag, metric in ours.items():
        if tag not in theirs:
            fail(f"{where}: {tag} is no figure that AIPerf makes of these lines")
        must(where, differences(without_nulls(metric), finite(theirs[tag]), tag))
    return figures(ours)


def check(directory):
    from aiperf.common.models.export_models import JsonExportData
    from aiperf.common.models.record_models import MetricRecordInfo

    summary = directory / "profile_export_aiperf.json"
    raw = json.loads(summary.read_text())
    loaded = JsonExportData.model_validate_json(summary.read_text())
    must(summary, differences(without_nulls(raw), without_nulls(loaded.model_dump(mode="json", exclude_unset=True))))
    records = []
    for number, line in enumerate((directory / "profile_export.jsonl").read_text().splitlines(), 1):
        record = MetricRecordInfo.model_validate_json(line)
        must(f"{directory.name}: line {number}", differences(json.loads(line), record.model_dump(mode="json", exclude_none=True, exclude_unset=True)))
        records.append(record)
    theirs = asyncio.run(recomputed(loaded.input_config, records, directory.name))
    named = {tag: value for tag, value in raw.items() if isinstance(value, dict) and "unit" in value}
    count = compare(f"{summary}", named, theirs.get("profiling", {}))
    count += compare(f"{summary}: warmup_metrics", raw.get("warmup_metrics", {}), theirs.get("warmup", {}))
    print(f"aiperf: {directory.name}: loads and dumps the same; {len(records)} lines, each metric as AIPerf's processor makes it; "
          f"{count} figures of its accumulator agree")
    return len(records)


def plot(paths, words):
    with tempfile.TemporaryDirectory() as out:
        tool = Path(sys.executable).with_name("aiperf")
        environment = {**os.environ, "HOME": out}
        done = subprocess.run(
            [str(tool), "plot", *(word for path in paths for word in ("--paths", str(path))), "--output", f"{out}/plots", "--verbose"],
            capture_output=True, text=True, timeout=400, cwd=out, env=environment,
        )
        pictures = sorted(path.name for path in Path(out, "plots").rglob("*.png"))
        if done.returncode != 0 or not pictures:
            fail(f"aiperf plot {words} ended with {done.returncode}, pictures {pictures}: {(done.stdout + done.stderr)[-1500:]}")
        print(f"aiperf: plot {words}: {len(pictures)} pictures: {', '.join(pictures)}")


def main():
    logging.disable(logging.WARNING)
    if len(sys.argv) < 2:
        fail("which directory? scripts/exports/aiperf.py DIR")
    if version("aiperf") != PINNED:
        fail(f"aiperf {version('aiperf')} is installed; the exports follow {PINNED}")
    found = sorted(path.parent.resolve() for path in Path(sys.argv[1]).rglob("profile_export_aiperf.json"))
    if not found:
        fail(f"{sys.argv[1]}: no profile_export_aiperf.json")
    with_lines = [directory for directory in found if check(directory)]
    if "--quick" not in sys.argv[2:]:
        for directory in with_lines[:1]:
            plot([directory], f"of {directory.name}")
        if len(with_lines) > 1:
            plot(with_lines, f"of {len(with_lines)} windows")
    print(f"aiperf {PINNED}: ok")


if __name__ == "__main__":
    main()
