#!/usr/bin/env bash
# Installs what is missing, builds the release preset, and runs every test. Ends with ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/packages.sh --tests
deploy/python_env.sh
deploy/xgrammar.sh
deploy/websocket_conformance.sh --prepare
model=$(deploy/demo_model.sh)
export PACELINE_MODEL_DIR=${PACELINE_MODEL_DIR:-$(dirname "$model")}
[ -x deploy/tokenizer_vocabularies.sh ] && deploy/tokenizer_vocabularies.sh
cmake --preset release -DPACELINE_CUDA_ARCHITECTURES=90 # one is enough to know that kernels compile
cmake --build --preset release
# One more than there are processors: the tests of the server wait for half of their time.
ctest --preset release --output-on-failure -j "$(($(nproc) + 1))"
