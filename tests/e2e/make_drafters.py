#!/usr/bin/env python3
"""Makes the drafters of the real-model tests out of SmolLM2: usage make_drafters.py FOLDER.

A ctest fixture. Takes the model from PACELINE_MODEL_DIR; without it there is nothing to make and its tests skip. Drafters
stay in FOLDER, and are made again only when the model or the tool has changed.
"""

import os
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent.parent / "tools" / "make_drafter.py"
DRAFTERS = {"smollm2-12-layers.gguf": ["--layers", "12"], "smollm2-q2_k.gguf": ["--type", "q2_k"]}


def main() -> int:
    folder = Path(sys.argv[1])
    model = Path(os.environ.get("PACELINE_MODEL_DIR", "")) / "smollm2.gguf"
    if "PACELINE_MODEL_DIR" not in os.environ or not model.exists():
        print("make_drafters: no smollm2.gguf in PACELINE_MODEL_DIR, nothing to make")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    newest_source = max(model.stat().st_mtime, TOOL.stat().st_mtime)
    for name, options in DRAFTERS.items():
        drafter = folder / name
        if drafter.exists() and drafter.stat().st_mtime >= newest_source:
            print(f"make_drafters: {name} is there")
            continue
        print(f"make_drafters: making {name}", flush=True)
        subprocess.run([sys.executable, TOOL, model, drafter, *options], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
