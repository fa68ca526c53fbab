// Masks and compilations of grammars with a model's vocabulary: grammar_bench MODEL.gguf [Google Benchmark's
// options]
#include "runtime/grammar/grammar_compiler.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace paceline {
namespace {

constexpr const char* schema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 60}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
  "mail": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
  "kind": {"enum": ["person", "company"]}, "score": {"type": "number", "minimum": 0, "maximum": 1}},
  "required": ["name", "age", "mail", "tags", "kind", "score"], "additionalProperties": false})";
constexpr const char* text =
    R"({"name": "Ada Lovelace", "age": 36, "mail": "ada@example.org", "tags": ["first", "programmer"], "kind": "person", "score": 0.75})";

struct prepared {
  tokenizer::tokenizer vocabulary;
  std::vector<token_id> tokens;
  std::unique_ptr<grammar::compiler> compiler;
};

grammar::grammar_source source() { return {grammar::grammar_source::kind::json_schema, schema}; }

void masks(benchmark::State& state, const prepared& with) {
  const auto constraint = *with.compiler->compile(source());
  const auto cursor = constraint->begin();
  if (cursor->num_allowed({}, {}, with.tokens) != with.tokens.size()) {
    state.SkipWithError("the text is not allowed");
    return;
  }
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cursor->allowed({with.tokens.data(), at}, {}).data());
    at = at == with.tokens.size() ? 0 : at + 1;
  }
}

void compilations(benchmark::State& state, const prepared& with) {
  for (auto _ : state) {
    const auto fresh = grammar::make_compiler(
        with.vocabulary, static_cast<std::uint32_t>(with.vocabulary.size()), {*with.vocabulary.eos()});
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(fresh->compile(source()));
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}

} // namespace
} // namespace paceline

int main(int argc, char** argv) {
  using namespace paceline;
  benchmark::Initialize(&argc, argv);
  auto file =
      argc == 2
          ? model::gguf_file::open(argv[1])
          : expected<model::gguf_file>(error(errc::invalid_argument, "usage: grammar_bench MODEL.gguf"));
  auto data = file ? model::read_gguf_vocabulary(file->metadata())
                   : expected<tokenizer::vocabulary_data>(std::move(file).error());
  auto vocabulary = data ? tokenizer::tokenizer::from_vocabulary(std::move(*data))
                         : expected<tokenizer::tokenizer>(std::move(data).error());
  if (!vocabulary) {
    std::cerr << vocabulary.error().message() << "\n";
    return 1;
  }
  const prepared with{*vocabulary, *vocabulary->encode(text, {.add_special = false, .parse_special = false}),
                      grammar::make_compiler(*vocabulary, static_cast<std::uint32_t>(vocabulary->size()),
                                             {*vocabulary->eos()})};
  benchmark::RegisterBenchmark("masks", [&](benchmark::State& state) { masks(state, with); });
  benchmark::RegisterBenchmark("compilations", [&](benchmark::State& state) {
    compilations(state, with);
  })->UseManualTime();
  benchmark::RunSpecifiedBenchmarks();
}
