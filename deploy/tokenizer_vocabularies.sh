#!/usr/bin/env bash
# Gets vocabularies of real models, each with texts and the ids that its own tokenizer gives for them, into
# .cache/tokenizer_vocabularies: llama.cpp's test files, out of the source package of llama-cpp-python. Skips when done.
set -euo pipefail
cd "$(dirname "$0")/.."

package=llama-cpp-python
version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
names=(command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 qwen35 refact
       starcoder)
out=.cache/tokenizer_vocabularies

if [ -f "$out/version" ] && [ "$(cat "$out/version")" = "$version" ]; then
  echo "vocabularies: $out is up to date"
  exit 0
fi

pip=(.cache/venv/bin/python -m pip)
[ -x "${pip[0]}" ] || pip=(python3 -m pip)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "vocabularies: downloading $package $version (77 MB)"
echo "$package==$version --hash=sha256:$sha256" > "$work/requirements.txt"
"${pip[@]}" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
  -r "$work/requirements.txt" -d "$work"

members=()
for name in "${names[@]}"; do
  for suffix in .gguf .gguf.inp .gguf.out; do
    members+=("llama_cpp_python-$version/vendor/llama.cpp/models/ggml-vocab-$name$suffix")
  done
done
tar xzf "$work/llama_cpp_python-$version.tar.gz" -C "$work" "${members[@]}"
rm -rf "$out"
mkdir -p "$out"
mv "$work/llama_cpp_python-$version/vendor/llama.cpp/models/"* "$out/"
echo "$version" > "$out/version"
echo "vocabularies: ${#names[@]} in $out"
