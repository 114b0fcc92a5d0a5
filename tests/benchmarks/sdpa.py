"""The written-out attention against the fused kernel, and decoding with shared heads: time and memory, as ratios.

    python tests/benchmarks/sdpa.py [--device cuda] [--dtype float16] [--sizes 256,512] [--plot FILE] [--json FILE]

Only torch is needed, and matplotlib for the plot.
Both functions are the lesson's: `attention` and `efficient_mha` of `solutions/torch_attention.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIZES = (256, 512, 1024, 2048, 4096, 8192)
HEADS, D_K = 4, 64
MOST = 6 << 30  # bytes of a CPU's memory that a measurement may take
SECONDS = 1.0  # so long each call is repeated
QUERY_HEADS, HEAD_SIZE, CACHED = 32, 128, (1024, 4096)
SHARED = {"MHA": 32, "GQA": 8, "MQA": 1}  # key/value heads


def kernels(device: str, dtype: str, sizes: tuple[int, ...] = SIZES, threads: int = 0) -> list[dict[str, Any]]:
    """A row a size: milliseconds and MiB of both functions, and what the first has of the second's."""
    rows = []
    for n in sizes:
        row: dict[str, Any] = {"n": n}
        if device == "cpu" and 3 * HEADS * n * n * 4 > MOST:
            row["left_out"] = "it would take too much memory"
        else:
            for name in ("attention", "efficient_mha"):
                row[name] = _alone({"what": name, "n": n, "device": device, "dtype": dtype, "threads": threads})
            row |= {key: row["attention"][key] / max(row["efficient_mha"][key], 1e-9) for key in ("ms", "mib")}
        rows.append(row)
    return rows


def decoding(device: str, dtype: str, threads: int = 0) -> list[dict[str, Any]]:
    """A row a cache: milliseconds a token with 32 query heads on 32, 8 and 1 KV heads, and what the cache takes."""
    rows = []
    for n in CACHED:
        for name, kv_heads in SHARED.items():
            ask = {"what": "decode", "n": n, "kv_heads": kv_heads, "device": device, "dtype": dtype, "threads": threads}
            rows.append({"kind": name, "kv_heads": kv_heads, "n": n, **_alone(ask)})
        first = rows[-len(SHARED)]
        for row in rows[-len(SHARED) :]:
            row |= {"faster": first["ms"] / row["ms"], "smaller": first["cache_mib"] / row["cache_mib"]}
    return rows


def _alone(ask: dict[str, Any]) -> dict[str, float]:
    """One measurement: on a CPU in a fresh process, since memory that was used once is used again."""
    if ask["device"].startswith("cuda"):
        return measure(ask)
    arguments = [sys.executable, __file__, "--measure", json.dumps(ask)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{ask}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(ask: dict[str, Any]) -> dict[str, float]:
    """Milliseconds a call (the median), and the MiB that one call takes beyond its inputs."""
    import torch

    sys.path.insert(0, str(ROOT / "solutions"))
    import torch_attention as lesson

    if ask["threads"]:
        torch.set_num_threads(ask["threads"])
    n, made = ask["n"], {"device": ask["device"], "dtype": getattr(torch, ask["dtype"])}
    torch.manual_seed(0)
    with torch.inference_mode():
        if ask["what"] == "decode":
            q = torch.randn(1, QUERY_HEADS, 1, HEAD_SIZE, **made)
            k, v = torch.randn(2, 1, ask["kv_heads"], n, HEAD_SIZE, **made)
            shared = {"enable_gqa": True} if ask["kv_heads"] != QUERY_HEADS else {}
            ms, _ = _timed(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **shared), ask)
            return {"ms": ms, "cache_mib": 2 * k.numel() * k.element_size() / 2**20}
        q, k, v = torch.randn(3, 1, HEADS, n, D_K, **made)
        function: Callable[..., Any] = getattr(lesson, ask["what"])
        ms, mib = _timed(lambda: function(q, k, v), ask)
    return {"ms": ms, "mib": mib}


def _timed(call: Callable[[], Any], ask: dict[str, Any]) -> tuple[float, float]:
    """Median and memory. One thread of a CPU is timed by what it works, not by what it waits for others on the machine."""
    import torch

    on_gpu = ask["device"].startswith("cuda")
    clock = time.process_time if not on_gpu and ask["threads"] == 1 else time.perf_counter
    if on_gpu:
        call()  # what the libraries keep for themselves is not counted
        torch.cuda.reset_peak_memory_stats()
    else:
        _peak()  # what importing took is not counted
    start_bytes = torch.cuda.memory_allocated() if on_gpu else _peak()
    call()  # warms up, and shows the memory
    used = (torch.cuda.max_memory_allocated() if on_gpu else _peak()) - start_bytes
    times, until = [], time.perf_counter() + SECONDS
    while len(times) < 3 or (time.perf_counter() < until and len(times) < 1000):
        if on_gpu:
            torch.cuda.synchronize()
        start = clock()
        call()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(clock() - start)
    return sorted(times)[len(times) // 2] * 1000, used / 2**20


def _peak() -> int:
    """The most memory that this process has held, in bytes: on Linux since it was last asked."""
    status = Path("/proc/self/status")
    if status.is_file():
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        Path("/proc/self/clear_refs").write_text("5")
        return int(found.split()[1]) << 10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


def machine(device: str) -> str:
    """What it was measured on."""
    import torch

    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}"
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {os.cpu_count()} cores, PyTorch {torch.__version__}"


def table(rows: list[dict[str, Any]], decoded: list[dict[str, Any]]) -> str:
    """Both results as Markdown."""
    lines = ["| tokens | `attention` | `efficient_mha` | times as fast | of the memory |", "|---|---|---|---|---|"]
    for row in rows:
        if "left_out" in row:
            lines.append(f"| {row['n']:,} | {row['left_out']} | | | |")
            continue
        cells = [f"{row[name]['ms']:,.2f} ms, {row[name]['mib']:,.0f} MiB" for name in ("attention", "efficient_mha")]
        share = row["efficient_mha"]["mib"] / max(row["attention"]["mib"], 1e-9)
        lines.append(f"| {row['n']:,} | {cells[0]} | {cells[1]} | {row['ms']:.1f} | {share:.0%} |")
    lines += ["", "| cached tokens | heads | a token | cache | faster than MHA | smaller |", "|---|---|---|---|---|---|"]
    for row in decoded:
        kind = f"{row['kind']}, {row['kv_heads']} KV heads"
        numbers = f"{row['ms']:.3f} ms | {row['cache_mib']:,.1f} MiB | {row['faster']:.1f} times | {row['smaller']:.0f} times"
        lines.append(f"| {row['n']:,} | {kind} | {numbers} |")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    """Time and memory over the number of tokens, on logarithmic axes."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(9, 3.5), layout="constrained")
    shown = [row for row in rows if "left_out" not in row]
    for axis, key, label in zip(made.subplots(1, 2), ("ms", "mib"), ("ms a call", "MiB beyond the inputs"), strict=True):
        for name in ("attention", "efficient_mha"):
            axis.loglog([row["n"] for row in shown], [max(row[name][key], 0.1) for row in shown], "o-", label=name)
        axis.set(xlabel="tokens", ylabel=label)
        axis.set_xticks([row["n"] for row in shown], [f"{row['n']:,}" for row in shown])
        axis.minorticks_off()
        axis.legend()
    made.suptitle(title, fontsize=9)
    made.savefig(path, dpi=120)


def main() -> None:
    """Measure everything, print the tables, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default: torch's choice)")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(json.loads(asked.measure))))
        return
    sizes = tuple(map(int, asked.sizes.split(",")))
    rows = kernels(asked.device, asked.dtype, sizes, asked.threads)
    decoded = decoding(asked.device, asked.dtype, asked.threads)
    title = f"{machine(asked.device)}, {asked.dtype}, {HEADS} heads of {D_K}, {time.strftime('%Y-%m-%d')}"
    print(title, table(rows, decoded), sep="\n\n")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": title, "attention": rows, "decoding": decoded}, indent=2) + "\n")
    if asked.plot:
        plot(rows, asked.plot, title)


if __name__ == "__main__":
    main()
