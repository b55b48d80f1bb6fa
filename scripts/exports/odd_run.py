#!/usr/bin/env python3
"""Makes the run directory in tests/exports/run out of a small one against the built-in mock: what real servers do now and
then is put in by hand, and the chain is sealed anew.

    tarebench run --max-concurrency 1,3 --num-prompts 10 --drop 2 --windows 2 --min-duration 0 --workload random \
        --random-input-len 12 --random-output-len 80 --out small
    scripts/exports/odd_run.py small tests/exports/run
"""
import hashlib
import json
import pathlib
import sys

source, target = map(pathlib.Path, sys.argv[1:3])
target.mkdir(parents=True, exist_ok=True)
text = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))

plan = json.loads((source / "plan.json").read_text())
plan["environment"]["host"] = "rig-host"
plan["environment"]["cpu_model"] = "a processor"
plan["environment"]["kernel"] = "6.18"
(target / "plan.json").write_text(json.dumps(plan, indent=2, ensure_ascii=False) + "\n")

rows = [json.loads(line) for line in (source / "requests.jsonl").read_text().splitlines()]
windows = [json.loads(line) for line in (source / "windows.jsonl").read_text().splitlines()]


def without_answer(row):
    for stamp in ("first_byte", "first_event", "first_token", "first_answer", "last_token", "done", "end"):
        row[stamp] = None
    row["chunks"], row["token_events"], row["events"] = [], 0, 0
    for told in ("completion_tokens", "prompt_tokens", "tokens_source", "length_met", "finish_reason", "model_echo"):
        row[told] = None


def last_is(row, chunk):
    row["last_token"] = {"seen": chunk[0], "arrived": chunk[1], "arrived_lo": chunk[2]}


def make_odd(row):
    trace = row["trace_id"]
    if (row["cell"], row["window"]) == (1, 1):  # nothing was answered
        without_answer(row)
        row.update(outcome="failed", http_status=503, retry_after="1",
                   error={"class": "http_status", "text": "503 Service Unavailable"})
        return
    if (row["cell"], row["window"]) != (0, 0):
        return
    if trace == 2:  # an error in the words of a server that means harm
        without_answer(row)
        row.update(outcome="failed", http_status=500, error={
            "class": "http_status", "text": '=HYPERLINK("http://evil","x"),\n<script>alert(1)</script>\u202e\u001b[31m'})
    if trace == 3:  # running when the window closed
        row["chunks"] = row["chunks"][:2]
        last_is(row, row["chunks"][-1])
        row.update(outcome="censored", done=None, end=None, token_events=2, completion_tokens=None, prompt_tokens=None,
                   tokens_source=None, length_met=None, finish_reason=None)
    if trace == 4:  # one token
        row["chunks"] = row["chunks"][:1]
        last_is(row, row["chunks"][0])
        row.update(token_events=1, completion_tokens=1, length_met=False, finish_reason="stop", events=3)
    if trace == 5:  # no usage
        row.update(completion_tokens=None, prompt_tokens=None, tokens_source=None, length_met=None)
    if trace == 6:  # two choices, the second one with each chunk of odd number
        for i, chunk in enumerate(row["chunks"]):
            chunk[5] = i % 2
    if trace == 7:  # no kernel stamps
        row["stamps"], row["wire_out"] = "user", None
        for stamp in ("first_byte", "first_event", "first_token", "first_answer", "last_token", "done", "end"):
            row[stamp]["arrived"] = row[stamp]["arrived_lo"] = None
        for chunk in row["chunks"]:
            chunk[1] = chunk[2] = None
    if trace == 8:  # no connection
        without_answer(row)
        row.update(outcome="failed", http_status=None, submit=None, handed=None, sent=None, wire_out=None, bytes_out=0,
                   bytes_in=0, reads=0, error={"class": "connect", "text": "connection refused"})
    if trace == 9:  # thinks before it answers, events without text, a cache hit
        later = row["chunks"][3]
        row["first_answer"] = {"seen": later[0], "arrived": later[1], "arrived_lo": later[2]}
        row["first_event"] = dict(row["first_byte"])  # a chunk with the role alone, in a read of its own
        row.update(empty_events=2, cached_tokens=1, reasoning_tokens=3, flags=["hidden_reasoning", "keepalive=2"])
    if trace == 10:  # never sent
        without_answer(row)
        row.update(outcome="not_sent", taken=None, submit=None, handed=None, sent=None, wire_out=None, http_status=None,
                   conn=None, bytes_out=0, bytes_in=0, reads=0, error={"class": "interrupted", "text": "the run was stopped"})
    if trace == 11:  # two token events in one read
        row["chunks"][2][4] = row["chunks"][1][4]
        row["chunks"][2][0:3] = row["chunks"][1][0:3]
        row["flags"] = ["coalesced=2"]


chain, last = "0" * 64, {}
with (target / "requests.jsonl").open("w") as out:
    for row in rows:
        row.pop("h")
        make_odd(row)
        line = text(row)
        chain = hashlib.sha256((chain + line).encode()).hexdigest()
        last[row["cell"], row["window"]] = chain
        out.write(f'{line[:-1]},"h":"{chain}"}}\n')
with (target / "windows.jsonl").open("w") as out:
    for window in windows:
        window["last_h"] = last[window["cell"], window["window"]]
        for worker in window["workers"]:
            worker["tid"] = 77
        out.write(text(window) + "\n")
with (target / "health.jsonl").open("w") as out:
    for line in (source / "health.jsonl").read_text().splitlines():
        out.write(text({**json.loads(line), "tid": 77}) + "\n")
