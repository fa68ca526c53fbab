#!/usr/bin/env bash
# Makes .cache/venv with the Python packages the tests use (tests/requirements.txt). Skips when up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/venv
stamp=$venv/requirements.stamp
if [ -f "$stamp" ] && cmp -s "$stamp" tests/requirements.txt; then
  echo "python: $venv is up to date"
  exit 0
fi
echo "python: making $venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
# PyTorch is Debian's package, which uses the processor only. PyPI's package includes 4 GB of CUDA libraries.
torch=/usr/lib/python3/dist-packages/torch
[ ! -d "$torch" ] || ln -sfn "$torch" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch"
cp tests/requirements.txt "$stamp"
