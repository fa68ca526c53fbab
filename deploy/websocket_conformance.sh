#!/usr/bin/env bash
# Autobahn's test suite for WebSocket against the daemon's edge, which echoes for it (tests/conformance/echo_peer.cpp).
#   deploy/websocket_conformance.sh             sections 1 to 7 and 10
#   deploy/websocket_conformance.sh 9           large messages, some minutes
#   deploy/websocket_conformance.sh --prepare   only fetches the suite, to .cache/autobahn; a second time it does nothing
# Sections 12 and 13 are about permessage-deflate, which the daemon does not offer.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=autobahntestsuite==25.10.1
sha256=b083d6e15330fc16f3e5f0975cce2b15f21bfa0c6db09547316b1852c6dbd6df
venv=.cache/autobahn
stamp=$venv/inputs.stamp

inputs=$(cat tests/conformance/requirements.txt tests/conformance/convert_suite.py "$0" | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$inputs" ]; then
  echo "autobahn: making $venv" >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r tests/conformance/requirements.txt
  # Only its files are used: building it would need Python 2.
  "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$venv" "$suite"
  echo "$sha256  $venv/${suite/==/-}.tar.gz" | sha256sum --check --quiet >&2
  "$venv/bin/python" tests/conformance/convert_suite.py "$venv/${suite/==/-}.tar.gz" "$venv/suite"
  echo "$inputs" > "$stamp"
fi
[ "${1:-}" != --prepare ] || exit 0

cmake --build build/release --target echo_peer >&2
exec "$venv/bin/python" tests/conformance/run_suite.py build/release/bin/echo_peer "$@"
