#!/usr/bin/env bash
# Builds XGrammar, the library behind runtime/grammar, from its PyPI source package into .cache/xgrammar (headers and one
# static library; half a minute). Skips when it is there. The package stays in .cache/downloads, so that a second build
# needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.2.8
sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
archive=.cache/downloads/xgrammar-$version.tar.gz
prefix=$PWD/.cache/xgrammar
stamp="$version, quiet, $(sha256sum deploy/xgrammar_bounds.py | cut -c1-16)"

if [ -f "$prefix/version" ] && [ "$(cat "$prefix/version")" = "$stamp" ]; then
  echo "xgrammar: $prefix is up to date" >&2
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! { [ -f "$archive" ] && echo "$sha256  $archive" | sha256sum --check --status; }; then
  echo "xgrammar: downloading $version (3 MB)" >&2
  # The index is used instead of pip, because pip would run the package's build, which installs PyTorch, only to find out its name.
  python3 - "xgrammar-$version.tar.gz" "$work/archive" <<'PYTHON'
import re, shutil, sys, urllib.parse, urllib.request

name, target = sys.argv[1:]
index = "https://pypi.org/simple/xgrammar/"
with urllib.request.urlopen(index, timeout=60) as page:
    links = re.findall(r'href="([^"#]+)', page.read().decode())
link = next((link for link in links if link.endswith("/" + name)), None)
if link is None:
    sys.exit(f"xgrammar: {index} does not list {name}")
with urllib.request.urlopen(urllib.parse.urljoin(index, link), timeout=60) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out)
PYTHON
  echo "$sha256  $work/archive" | sha256sum --check --quiet >&2
  mkdir -p "$(dirname "$archive")"
  mv "$work/archive" "$archive"
fi

echo "xgrammar: building $version" >&2
tar xzf "$archive" -C "$work"
source=$work/xgrammar-$version
python3 deploy/xgrammar_bounds.py "$source/cpp"
mkdir "$work/build"
echo 'set(XGRAMMAR_BUILD_PYTHON_BINDINGS OFF)' > "$work/build/config.cmake"
options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/install" -DCMAKE_INSTALL_LIBDIR=lib
         # The package's own flags come first: these switch off its link-time optimization, whose objects need the very
         # compiler that made them, and its -Werror. Its messages go to runtime/grammar instead of the standard error stream.
         -DCMAKE_CXX_FLAGS="-fno-lto -w -DXGRAMMAR_LOG_CUSTOMIZE=1" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG")
if command -v ccache > /dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1 # the folder has another name each time
fi
if command -v ninja > /dev/null; then
  options+=(-G Ninja)
fi
if ! { cmake -S "$source" -B "$work/build" "${options[@]}" && cmake --build "$work/build" --parallel "$(nproc)" &&
       cmake --install "$work/build"; } > "$work/log" 2>&1; then
  tail -n 50 "$work/log" >&2
  exit 1
fi
mkdir -p "$work/install/share"
cp "$source/LICENSE" "$source/NOTICE" "$work/install/share/"
echo "$stamp" > "$work/install/version"
rm -rf "$prefix"
mv "$work/install" "$prefix"
echo "xgrammar: $prefix" >&2
