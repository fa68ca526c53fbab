#!/usr/bin/env bash
# Puts programs of the release build into FOLDER, stripped, with the libraries they need in FOLDER/lib: for a machine
# with neither Debian's packages nor a network. It needs glibc 2.34 and libstdc++ of GCC 12, or later ones.
#
#     deploy/bundle.sh FOLDER [PROGRAM...]    # by default paceline and, where it is built, gpu_hardware_test
set -euo pipefail
folder=${1:?"usage: deploy/bundle.sh FOLDER [PROGRAM...]"}
shift
bin=${PACELINE_BIN_DIR:-$(cd "$(dirname "$0")/.." && pwd)/build/release/bin}
programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
  programs=(paceline)
  [ ! -x "$bin/gpu_hardware_test" ] || programs+=(gpu_hardware_test)
fi

mkdir -p "$folder/lib"
for program in "${programs[@]}"; do
  strip -o "$folder/$program" "$bin/$program"
  # The C and C++ runtimes are not copied: they must match the loader of the machine.
  ldd "$bin/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -Ev '/(libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)\.so' | xargs -r -I{} cp -L {} "$folder/lib/"
done
echo "bundle: ${programs[*]} and $(ls "$folder/lib" | wc -l) libraries in $folder, $(du -sm "$folder" | cut -f1) MB"
