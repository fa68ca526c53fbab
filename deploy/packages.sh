#!/usr/bin/env bash
# Installs the Debian 12 packages that building and testing Paceline needs. Skips what is installed. With --tests also
# PyTorch with a BLAS that is not the reference one, the browser, the proxies and Prometheus, which some tests use; Debian starts proxies and Prometheus as services where it can.
set -euo pipefail

build=(g++ cmake ninja-build ccache mold pkg-config libcaf-dev libboost1.81-dev libboost-json1.81-dev libboost-context1.81-dev libyaml-cpp-dev
       libssl-dev libcli11-dev libedit-dev libpcre2-dev libutf8proc-dev libxxhash-dev
       libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev
       curl ca-certificates openssl python3 python3-venv unzip)
[ "${1:-}" != --tests ] || build+=(python3-torch libopenblas0-serial chromium nginx-light haproxy caddy prometheus)

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
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
