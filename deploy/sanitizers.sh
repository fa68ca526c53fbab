#!/usr/bin/env bash
# Builds a sanitizer's preset and runs tests with it; further arguments go to ctest.
#   deploy/sanitizers.sh address             # AddressSanitizer and UndefinedBehaviorSanitizer: every test (an hour and more)
#   deploy/sanitizers.sh thread -R 'engine'  # ThreadSanitizer, with a CAF of its own
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  address) preset=dev ;;
  thread) preset=tsan ;;
  *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
shift
deploy/packages.sh --tests
deploy/python_env.sh
deploy/xgrammar.sh
model=$(deploy/demo_model.sh)
export PACELINE_MODEL_DIR=${PACELINE_MODEL_DIR:-$(dirname "$model")}
[ "$preset" = dev ] || deploy/caf_for_tsan.sh
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}
export PACELINE_RANDOM_REQUESTS=${PACELINE_RANDOM_REQUESTS:-300} # of 20 000: instrumented code is slow
cmake --preset $preset
cmake --build --preset $preset
ctest --preset $preset --output-on-failure -j "$(nproc)" "$@"
