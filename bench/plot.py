"""Draws the figures under bench/results as plots (PNG and SVG): the files that peers/compare.py and `paceline bench --json` wrote.

    .cache/peers/bin/python bench/plot.py --peers x-peers.json --cost x-cost.json ... --spec x-spec.json
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
    latest = {(r["bench"], r["model"]): r for r in results if r.get("peer", "llama.cpp") == "llama.cpp"}
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


def arms_of(workload):
    """Drafter (and overlap mode) -> its arms by draft length; those without lengths have one of None."""
    by_name = {}
    for arm in workload["arms"]:
        name = " ".join(filter(None, [arm["drafter"], arm.get("overlap")]))
        by_name.setdefault(name, []).append(arm)
    by_name.pop("none", None)
    return by_name


def speed_up(arm):
    median, (low, high) = arm["speed_up"]["median"], arm["speed_up"]["interval95"]
    return median, [[max(0, median - low)], [max(0, high - median)]]


def draw_speed_up(axis, x_of, arms_by_name):
    """Measured values with their 95 % interval; dashed: the prediction from the measured acceptance and times."""
    for number, (name, arms) in enumerate(arms_by_name.items()):
        colour = f"C{number}"
        arms = [a for a in arms if "speed_up" in a]
        places = [x_of(a) for a in arms]
        if not arms:
            continue
        if places[0] is None:  # the drafter has no lengths: a horizontal line
            median, errors = speed_up(arms[0])
            axis.axhline(median, color=colour, label=name)
            axis.axhspan(median - errors[0][0], median + errors[1][0], color=colour, alpha=0.12, linewidth=0)
            continue
        for x, arm in zip(places, arms):
            axis.errorbar(x, speed_up(arm)[0], yerr=speed_up(arm)[1], color=colour, capsize=2)
        axis.plot(places, [speed_up(a)[0] for a in arms], "o-", color=colour, label=name)
        axis.plot(places, [a["predicted_speed_up"] for a in arms], "--", color=colour, linewidth=1)
    axis.axhline(1, color=THEIRS, linestyle=":")
    axis.spines[["top", "right"]].set_visible(False)


def draw_spec(reports, out):
    """One plot of speed-up against draft length for batch 1, one against the batch at each drafter's best length."""
    workloads = [w for r in reports for w in r["workloads"]]
    names = list(dict.fromkeys(w["workload"] for w in workloads))
    singles = {w["workload"]: w for w in workloads if w["concurrency"] == 1}
    figure, axes = plt.subplots(1, max(1, len(singles)), figsize=(4 * max(1, len(singles)), 3.4), squeeze=False, sharey=True)
    for axis, name in zip(axes[0], [n for n in names if n in singles]):
        draw_speed_up(axis, lambda a: a["draft_length"], arms_of(singles[name]))
        axis.set_xlabel("draft length")
        axis.set_title(f"{name}, batch 1")
    axes[0][0].set_ylabel("times plain decoding")
    axes[0][0].legend(frameon=False, fontsize="small")
    save(figure, out, "spec-length")
    if len({w["concurrency"] for w in workloads}) < 2:
        return
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.4), squeeze=False, sharey=True)
    for axis, name in zip(axes[0], names):
        best = {}
        for workload in [w for w in workloads if w["workload"] == name]:
            for drafter, arms in arms_of(workload).items():
                arm = max((a for a in arms if "speed_up" in a), key=lambda a: a["speed_up"]["median"])
                best.setdefault(drafter, []).append({**arm, "batch": workload["concurrency"]})
        draw_speed_up(axis, lambda a: a["batch"], best)
        axis.set_xlabel("requests together")
        axis.set_title(name)
    axes[0][0].set_ylabel("times plain decoding, at the best length")
    axes[0][0].legend(frameon=False, fontsize="small")
    save(figure, out, "spec-batch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="written by compare.py")
    parser.add_argument("--cost", type=Path, nargs="*", default=[], help="written by `paceline bench cost --json`")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results/plots")
    parser.add_argument("--spec", type=Path, nargs="*", default=[], help="written by `paceline bench spec --json`")
    args = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "paceline"
    if args.peers:
        draw_peers(json.loads(args.peers.read_text()), args.out)
    if args.cost:
        draw_cost([json.loads(p.read_text()) for p in args.cost], args.out)
    if args.spec:
        draw_spec([json.loads(p.read_text()) for p in args.spec], args.out)


if __name__ == "__main__":
    main()
