#!/usr/bin/env bash
# From a fresh Debian 12 machine to a model that answers: installs packages, builds, obtains the demo model, serves it.
#   deploy/quickstart.sh                  serve on http://127.0.0.1:8080 (PACELINE_PORT chooses another port)
#   deploy/quickstart.sh --once "prompt"  print one answer and exit
# A second run skips what is done.
set -euo pipefail
cd "$(dirname "$0")/.."

once=""
case "${1:-}" in
  "") ;;
  --once) [ $# -eq 2 ] || { echo 'usage: deploy/quickstart.sh [--once "prompt"]' >&2; exit 2; }; once=$2 ;;
  *) echo 'usage: deploy/quickstart.sh [--once "prompt"]' >&2; exit 2 ;;
esac

deploy/packages.sh >&2
deploy/xgrammar.sh || echo "quickstart: without XGrammar outputs cannot be constrained by schemas" >&2
[ -f build/release/build.ninja ] || cmake --preset release >&2
cmake --build --preset release --target paceline >&2
PACELINE_MODEL=$(deploy/demo_model.sh)
export PACELINE_MODEL
paceline=build/release/bin/paceline

if [ -n "$once" ]; then
  exec "$paceline" run --model "$PACELINE_MODEL" --chat --prompt "$once" --max-tokens 256
fi

log=$(mktemp)
"$paceline" serve --config config/examples/quickstart.yaml > "$log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 0' INT TERM
until address=$(sed -n 's/^listening on //p' "$log") && [ -n "$address" ]; do
  kill -0 "$daemon" 2>/dev/null || { wait "$daemon"; exit $?; }
  sleep 0.1
done
cat <<EOF
Paceline serves SmolLM2-135M-Instruct at $address

  curl $address/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "What is a paceline?"}], "max_tokens": 64}'

  $paceline chat --model $PACELINE_MODEL

Ctrl-C stops it.
EOF
wait "$daemon"
