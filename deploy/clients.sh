#!/usr/bin/env bash
# Runs the clients that people use against the daemon on loopback, and prints a table of them. Fails if one of them fails.
#   deploy/clients.sh                     all, with the demo model
#   deploy/clients.sh MODEL.gguf          all, with this instruct model
#   deploy/clients.sh MODEL.gguf NAME...  some, by the names in the table
# The first run installs Debian packages and two Python environments, 1.5 GB in .cache/clients; later runs fetch nothing. Needs a release build.
# Output of each client is in .cache/clients/NAME.log.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/packages.sh --tests >&2
deploy/python_env.sh >&2
model=${1:-$(deploy/demo_model.sh)}
model=$(realpath "$model")
shift || true
folder=.cache/clients
mkdir -p "$folder"

# environment NAME REQUIREMENTS: makes a Python environment, unless it is there.
environment() {
  local venv=$folder/$1
  cmp -s "$2" "$venv/requirements.stamp" && return
  echo "clients: making $venv" >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$2" >&2
  cp "$2" "$venv/requirements.stamp"
}
environment libraries tests/clients/requirements.txt
environment tools tests/clients/tools-requirements.txt
ln -sfn /usr/lib/python3/dist-packages/torch "$("$folder/tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch"

export PACELINE_BIN=$PWD/build/release/bin/paceline PACELINE_BINARY_DIR=$PWD/build/release PACELINE_SOURCE_DIR=$PWD
export PACELINE_MODEL_DIR=${PACELINE_MODEL_DIR:-$PWD/.cache/models} PACELINE_CLIENTS_MODEL=$model
wanted=" $* "
failed=0
rows=()

# row NAME VERSION RESULT
row() { rows+=("| $1 | $2 | $3 |"); }
# client NAME VERSION PYTHON FILE [PYTEST ARGUMENT...]: runs a file of tests
client() {
  local name=$1 version=$2 python=$3 file=$4 log=$folder/${1//\//-}.log
  shift 4
  [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return 0
  echo "clients: $name $version" >&2
  if (cd "$(dirname "$file")" && "$python" -m pytest -q -rs -p no:cacheprovider "$(basename "$file")" "$@") > "$log" 2>&1; then
    row "$name" "$version" "$(grep -oE '[0-9]+ passed.* in ' "$log" | tail -1 | sed 's/ in $//')"
  else
    row "$name" "$version" "**failed**: $(grep -m1 -E '^(FAILED|ERROR)' "$log" | tr '|' '/' || tail -1 "$log")"
    failed=1
  fi
}
version_of() { "$1" -c 'import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))' "$2"; }
# python_client NAME ENVIRONMENT FILE [PYTEST ARGUMENT...]
python_client() { client "$1" "$(version_of "$PWD/$2/bin/python" "$1")" "$PWD/$2/bin/python" "tests/clients/$3" "${@:4}"; }

libraries=$folder/libraries tools=$folder/tools own=$PWD/.cache/venv/bin/python
python_client openai $libraries openai_test.py
python_client openai-agents $libraries openai_agents_test.py
python_client langchain-openai $libraries langchain_test.py
python_client litellm $libraries litellm_test.py
python_client anthropic $libraries anthropic_test.py
client docs/clients.md - "$PWD/$libraries/bin/python" tests/clients/page_test.py
python_client instructor $tools instructor_test.py page_test.py
python_client lm-eval $tools lm_eval_test.py
python_client aiperf $tools aiperf_test.py
python_client guidellm $tools guidellm_test.py
client websockets "$(version_of "$own" websockets)" "$own" tests/server/websocket_test.py
PACELINE_OPENAPI_CASES=20 PACELINE_OPENAPI_PHASES=examples,coverage,fuzzing \
  client schemathesis "$(version_of "$own" schemathesis)" "$own" tests/server/openapi_test.py
client curl "$(curl --version | sed 's/curl \([^ ]*\).*/\1/; q')" "$own" tests/server/tls_test.py -k curl
client promtool "$(promtool --version 2>&1 | sed 's/promtool, version \([^ ]*\).*/\1/; q')" "$own" tests/clients/promtool_test.py
client nginx "$(nginx -v 2>&1 | sed 's/.*nginx.//')" "$own" tests/clients/proxies_test.py -k nginx
client haproxy "$(haproxy -v | sed 's/HAProxy version \([^ ]*\).*/\1/; q')" "$own" tests/clients/proxies_test.py -k haproxy
client caddy "$(caddy version | cut -d' ' -f1)" "$own" tests/clients/proxies_test.py -k caddy
if [ "$wanted" = "  " ] || [[ $wanted == *" autobahn "* ]]; then
  echo "clients: autobahn" >&2
  if deploy/websocket_conformance.sh > "$folder/autobahn.log" 2>&1; then
    row autobahn 25.10.1 "$(tail -1 "$folder/autobahn.log")"
  else
    row autobahn 25.10.1 "**failed**"
    failed=1
  fi
fi

[ ${#rows[@]} -gt 0 ] || { echo "clients: none is called $*" >&2; exit 2; }
printf '%s\n' "| client | version | result |" "| --- | --- | --- |" "${rows[@]}"
exit $failed
