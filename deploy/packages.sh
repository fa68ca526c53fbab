#!/usr/bin/env bash
# Installs the Debian 12 packages that building (and, with --tests, testing) Paceline needs. Skips what is installed.
set -euo pipefail

build=(g++ cmake ninja-build ccache mold pkg-config libcaf-dev libboost1.81-dev libboost-json1.81-dev libyaml-cpp-dev
       libssl-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev
       libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev
       curl ca-certificates openssl python3 python3-venv python3-torch unzip)
# The page at / is tested in a browser.
[ "${1:-}" != --tests ] || build+=(chromium)

missing=()
for package in "${build[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all ${#build[@]} installed"
  exit 0
fi
echo "packages: installing ${#missing[@]}: ${missing[*]}"
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends "${missing[@]}"
