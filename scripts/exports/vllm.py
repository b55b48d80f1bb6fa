#!/usr/bin/env python3
"""Has vLLM's own code read the exports in a directory: `lib/endpoint_request_func.py` and `serve.py` recompute every figure from
the detailed arrays, `plot.py` draws the timeline, `vllm bench sweep plot` and `plot_pareto` take the files as the results of a
sweep, `vllm-rs bench serve --compare` reads pairs of them.

    scripts/exports/vllm.py DIR      Python with vLLM; pandas, plotly, matplotlib and seaborn for the pictures
    VLLM_RS=path                     the Rust client; left out, aloud, where it is not given

Ends with 1 and says what differs.
"""
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

PERCENTILES = [50.0, 90.0, 95.0, 99.0]


def outputs(result):
    """The detailed arrays as vLLM's own records of requests."""
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

    arrays = [result[name] for name in ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times",
                                        "queue_times", "generated_texts", "errors")]
    assert len({len(array) for array in arrays}) == 1, "the arrays differ in length"
    return [
        RequestFuncOutput(generated_text=text, success=not error, latency=latency, output_tokens=output, ttft=ttft, itl=itl,
                          prompt_len=prompt, error=error, start_time=start, client_queue_time=queue)
        for prompt, output, ttft, itl, latency, start, queue, text, error in zip(*arrays)
    ]


def close(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def recompute(name, result):
    from vllm.benchmarks.serve import calculate_metrics

    metrics, lengths = calculate_metrics([], outputs(result), result["duration"], None, PERCENTILES, {})
    want = {
        "completed": metrics.completed, "failed": metrics.failed, "total_input_tokens": metrics.total_input,
        "total_output_tokens": metrics.total_output, "request_throughput": metrics.request_throughput,
        "output_throughput": metrics.output_throughput, "total_token_throughput": metrics.total_token_throughput,
        "max_output_tokens_per_s": metrics.max_output_tokens_per_s,
        "max_concurrent_requests": metrics.max_concurrent_requests, "rtfx": metrics.rtfx,
    }
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for figure in ("mean", "median", "std"):
            want[f"{figure}_{metric}_ms"] = getattr(metrics, f"{figure}_{metric}_ms")
        for p, value in getattr(metrics, f"percentiles_{metric}_ms"):
            want[f"p{int(p)}_{metric}_ms"] = value
    wrong = [f"{name}: {key} is {result.get(key)}, vLLM makes {value}" for key, value in want.items()
             if not close(float(result[key]), float(value))]
    if lengths != result["output_lens"]:
        wrong.append(f"{name}: output_lens differ")
    print(f"{name}: calculate_metrics of vLLM gives the same {len(want)} figures" if not wrong else "\n".join(wrong))
    return wrong


def keys(name, result):
    """Every key that vLLM writes is there, and no other but those that --metadata could add."""
    import inspect

    from vllm.benchmarks import serve

    source = inspect.getsource(serve)
    ours = [key for key in result if not key.startswith("tarebench")]
    unknown = [key for key in ours if f'"{key}"' not in source and not key.endswith("_ms")]
    wrong = [f"{name}: vLLM writes no {key}" for key in unknown]
    for key in ("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate",
                "burstiness", "max_concurrency", "duration", "completed", "failed", "request_goodput"):
        if key not in result:
            wrong.append(f"{name}: {key} is missing")
    return wrong


def timeline(name, result, into):
    from vllm.benchmarks.plot import generate_dataset_stats_plot, generate_timeline_plot

    # as `vllm bench serve --plot-timeline` hands them over
    per_request = [
        {"start_time": start, "ttft": ttft, "itl": itl, "latency": ttft + sum(itl) if itl else ttft, "prompt_len": prompt,
         "output_tokens": output}
        for start, ttft, itl, prompt, output in zip(result["start_times"], result["ttfts"], result["itls"],
                                                    result["input_lens"], result["output_lens"])
    ]
    page, picture = into / f"{name}.timeline.html", into / f"{name}.dataset_stats.png"
    generate_timeline_plot(per_request, page, itl_thresholds=[0.025, 0.05])
    generate_dataset_stats_plot(per_request, picture)
    return [f"{path.name} was not drawn" for path in (page, picture) if not path.exists() or path.stat().st_size < 1000]


def sweep(results, into):
    """As `vllm bench sweep serve` lays them down: one directory a load, the runs of it in summary.json."""
    from vllm.benchmarks.sweep.plot import PlotBinners, PlotFilters, plot
    from vllm.benchmarks.sweep.plot_pareto import plot_pareto

    by_load = {}
    for result in results:
        runs = by_load.setdefault(result["tarebench_cell"], [])
        runs.append({**result, "run_number": len(runs)})
    for cell, runs in by_load.items():
        place = into / "sweep" / f"cell={cell}"
        place.mkdir(parents=True)
        (place / "summary.json").write_text(json.dumps(runs))
    plot(into / "sweep", into / "figures", [], [], [], [], var_x="max_concurrency", var_y="p99_ttft_ms",
         filter_by=PlotFilters.parse_str(""), bin_by=PlotBinners.parse_str(""), scale_x=None, scale_y=None, dry_run=False)
    plot_pareto(into / "sweep", "max_concurrency", None, ["max_concurrency"], dry_run=False)
    drawn = list(into.rglob("FIGURE*.png")) + list((into / "sweep").rglob("PARETO*.png"))
    return [] if len(drawn) == 2 else [f"the sweep's figures were not drawn: {drawn}"]


def compare(paths):
    rust = os.environ.get("VLLM_RS")
    if not rust:
        print("vllm-rs: skipped, VLLM_RS is not set")
        return []
    print(subprocess.run([rust, "--version"], capture_output=True, text=True).stdout.strip())
    done = subprocess.run([rust, "bench", "serve", "--compare", str(paths[0]), str(paths[-1])], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    return [] if done.returncode == 0 else [f"vllm-rs bench serve --compare ends with {done.returncode}"]


def main():
    directory = pathlib.Path(sys.argv[1])
    paths = sorted(directory.glob("cell*-window*.json"))
    if not paths:
        sys.exit(f"{directory}: no vLLM exports")
    print(f"vllm {importlib.metadata.version('vllm')}")
    results = [json.loads(path.read_text()) for path in paths]
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for path, result in zip(paths, results):
            wrong += recompute(path.stem, result) + keys(path.stem, result)
        try:
            import matplotlib
            import pandas
            import plotly
            import seaborn
            for module in (pandas, plotly, matplotlib, seaborn):
                print(f"{module.__name__} {module.__version__}")
        except ImportError as missing:
            print(f"pictures: skipped, {missing}")
        else:
            for path, result in zip(paths, results):
                wrong += timeline(path.stem, result, scratch)
            wrong += sweep(results, scratch)
    wrong += compare(paths)
    if wrong:
        sys.exit("\n".join(["vLLM does not agree:", *wrong]))
    print(f"vLLM reads {len(paths)} exports and agrees")


if __name__ == "__main__":
    main()
