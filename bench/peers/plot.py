"""Draws the figures under bench/results as plots (PNG and SVG): the files that compare.py and `paceline bench --json` wrote.

    .cache/peers/bin/python bench/peers/plot.py --peers bench/results/x-peers.json --cost bench/results/x-cost.json ...
"""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, THEIRS, ROOF = "#1f77b4", "#b0b0b0", "#d62728"


def title_of(model):
    return Path(model).stem


def save(figure, out, name):
    out.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(out / f"{name}.{suffix}", dpi=130, bbox_inches="tight", metadata={"Date": None} if suffix == "svg" else None)
    plt.close(figure)


def draw_peers(results, out):
    latest = {(r["bench"], r["model"]): r for r in results}
    benches = [b for b in ("decode", "prefill") if any(k[0] == b for k in latest)]
    figure, axes = plt.subplots(1, len(benches), figsize=(5 * len(benches), 3.4), squeeze=False)
    for axis, bench in zip(axes[0], benches):
        rows = [r for (b, _), r in latest.items() if b == bench]
        at = range(len(rows))
        axis.bar([i - 0.2 for i in at], [r["ours"] for r in rows], 0.4, label="paceline", color=OURS)
        axis.bar([i + 0.2 for i in at], [r["theirs"] for r in rows], 0.4, label="llama.cpp", color=THEIRS)
        for i, r in zip(at, rows):
            axis.text(i, max(r["ours"], r["theirs"]), f"{r['ratio']:.2f}x", ha="center", va="bottom")
        axis.set_xticks(list(at), [title_of(r["model"]) for r in rows])
        axis.set_ylabel("tokens per second")
        axis.set_title(f"{bench}, {rows[0]['tokens']} tokens, {rows[0]['threads']} threads")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False)
    save(figure, out, "peers")


def draw_cost(reports, out):
    figure, axes = plt.subplots(1, len(reports), figsize=(4 * len(reports), 3.4), squeeze=False, sharey=True)
    for axis, report in zip(axes[0], reports):
        passes = report["passes"]
        rows = [p["rows"] for p in passes]
        axis.plot(rows, [p["cost"] for p in passes], "o-", color=OURS, label="measured")
        axis.plot(rows, [p["roof_cost"] for p in passes], "--", color=ROOF, label="roof")
        axis.plot(rows, rows, ":", color=THEIRS, label="T passes of one row")
        axis.set_ylim(0.8, max(p["cost"] for r in reports for p in r["passes"]) * 1.1)
        axis.set_xlabel("rows T of a pass")
        axis.set_title(f"{title_of(report['model'])}\n{report['read_gb_per_second']:.0f} GB/s")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("V(T) / V(1)")
    axes[0][0].legend(frameon=False)
    save(figure, out, "cost")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="written by compare.py")
    parser.add_argument("--cost", type=Path, nargs="*", default=[], help="written by `paceline bench cost --json`")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "results/plots")
    args = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "paceline"
    if args.peers:
        draw_peers(json.loads(args.peers.read_text()), args.out)
    if args.cost:
        draw_cost([json.loads(p.read_text()) for p in args.cost], args.out)


if __name__ == "__main__":
    main()
