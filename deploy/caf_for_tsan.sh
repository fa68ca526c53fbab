#!/usr/bin/env bash
# Makes .cache/caf-tsan: the CAF of Debian's libcaf-dev, built from Debian's source with ThreadSanitizer, once. The packaged library's
# atomics are invisible to the sanitizer, which then takes every message from actor to actor for a race.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$PWD/.cache/caf-tsan
if [ -e "$prefix/lib/libcaf_core.so" ]; then
  echo "caf: $prefix is there" >&2
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial
# Source packages come from the same servers as binary ones. Separate lists are used, so that the system's configuration does not change.
for list in /etc/apt/sources.list.d/*.sources; do [ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list"; echo; done > source.sources
[ ! -s /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > source.list
apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work" -o Dir::State::lists="$work/lists")
echo "caf: fetching the source of libcaf-dev" >&2
"${apt[@]}" update >&2
"${apt[@]}" source --download-only --tar-only libcaf-dev >&2
tar xzf actor-framework_*.orig.tar.gz

echo "caf: building it with ThreadSanitizer (some minutes)" >&2
cmake -S actor-framework-* -B build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=thread -w" \
  -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCAF_NO_IO=yes -DCAF_NO_TOOLS=yes -DCAF_NO_EXAMPLES=yes -DCAF_NO_UNIT_TESTS=yes -DCAF_NO_OPENSSL=yes \
  -DCAF_NO_OPENCL=yes -DCAF_NO_PYTHON=yes >&2
cmake --build build >&2
cmake --install build >&2
