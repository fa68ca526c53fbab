#!/usr/bin/env bash
# Makes .cache/peers: llama.cpp for this machine's processor (built by pip: some ten minutes), and what draws the plots.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.cache/peers
[ -x $venv/bin/python ] || python3 -m venv $venv
echo "peers: installing bench/peers/requirements.txt into $venv (llama.cpp is compiled)"
CMAKE_ARGS="-DGGML_NATIVE=ON" $venv/bin/python -m pip install --quiet -r bench/peers/requirements.txt
$venv/bin/python -c "import llama_cpp; print('peers: llama-cpp-python', llama_cpp.__version__)"
