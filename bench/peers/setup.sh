#!/usr/bin/env bash
# Makes .cache/peers: llama.cpp's llama-bench and llama-server for this machine's processor, built with GCC (llama-gcc) and with Clang
# (llama-clang) from the source package of llama-cpp-python, and a virtual environment with OpenVINO GenAI and what draws the plots. Takes
# up to an hour on two cores. Needs cmake, ninja, g++ and Clang (Debian: clang-16 libomp-16-dev). A compiler that is missing is skipped with a message.
#   bench/peers/setup.sh            JOBS=1 for a machine that others use too
set -euo pipefail
cd "$(dirname "$0")/../.."
version=0.3.36
home=.cache/peers
[ -x $home/bin/python ] || python3 -m venv $home
$home/bin/python -m pip install --quiet -r bench/peers/requirements.txt
source=$home/llama_cpp_python-$version/vendor/llama.cpp
if [ ! -d "$source" ]; then
  echo "peers: downloading llama-cpp-python $version"
  $home/bin/python -m pip download --quiet --no-deps --no-binary :all: -d $home "llama-cpp-python==$version"
  tar -xzf $home/llama_cpp_python-$version.tar.gz -C $home
fi

build() { # NAME C C++
  if ! command -v "$3" > /dev/null; then
    echo "peers: no $3, no build with it" >&2
    return
  fi
  echo "peers: building llama.cpp with $3"
  cmake -G Ninja -S "$source" -B "$home/$1" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$2" -DCMAKE_CXX_COMPILER="$3" \
    -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF > "$home/$1.log"
  ninja -C "$home/$1" -j "${JOBS:-$(nproc)}" llama-bench llama-server >> "$home/$1.log" ||
    { tail -20 "$home/$1.log" >&2; echo "peers: the build with $3 failed" >&2; }
}

build llama-gcc gcc g++
clang=$(command -v clang++-16 > /dev/null && echo -16 || true)
build llama-clang "clang$clang" "clang++$clang"
