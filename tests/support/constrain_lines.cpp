// Compiles grammars, for tests that compare with other programs.
//   constrain_lines GGUF
// Lines in: {"kind": "json_schema", "source": ..., "texts": [...], "samples": n, "seed": n, "max_tokens": n}.
// Lines out: {"error": {"code", "message"}, "seconds"} or {"accepted": [bool for each text], "outputs":
// [text, or null for an output that did not end], "seconds": of the compilation}. Outputs are drawn uniformly
// from the allowed bytes, then from the tokens that begin with the byte: the many tokens of long words do not
// win, and an end comes soon.
#include "runtime/grammar/grammar_compiler.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace paceline {
namespace {

namespace json = boost::json;

expected<tokenizer::tokenizer> open(const std::string& path) {
  auto file = model::gguf_file::open(path);
  if (!file) return std::move(file).error();
  auto vocabulary = model::read_gguf_vocabulary(file->metadata());
  if (!vocabulary) return std::move(vocabulary).error();
  return tokenizer::tokenizer::from_vocabulary(std::move(*vocabulary));
}

grammar::grammar_source source_of(const json::object& line) {
  using kind = grammar::grammar_source::kind;
  static const std::map<std::string, kind> kinds{{"json_object", kind::json_object},
                                                 {"json_schema", kind::json_schema},
                                                 {"regex", kind::regex},
                                                 {"ebnf", kind::ebnf},
                                                 {"choice", kind::choice}};
  return {kinds.at(std::string(line.at("kind").as_string())), std::string(line.at("source").as_string())};
}

bool accepts(const tokenizer::tokenizer& t, constraint_cursor& cursor, const json::string& text) {
  const auto tokens = t.encode({text.data(), text.size()}, {.add_special = false, .parse_special = false});
  if (!tokens || cursor.num_allowed({}, {}, *tokens) != tokens->size()) return false;
  const token_id end = *t.eos();
  return cursor.num_allowed(*tokens, {}, {&end, 1}) == 1;
}

json::value sample(const tokenizer::tokenizer& t, constraint_cursor& cursor, std::mt19937& random,
                   std::size_t max_tokens) {
  std::vector<token_id> output;
  while (output.size() < max_tokens) {
    const auto mask = cursor.allowed(output, {});
    std::map<int, std::vector<token_id>> by_byte; // -1: the end
    for (std::size_t i = 0; i < t.size(); ++i) {
      if (((mask[i / 32] >> (i % 32)) & 1U) == 0) continue;
      const token_id token{static_cast<token_id::rep>(i)};
      by_byte[token == *t.eos() ? -1 : static_cast<unsigned char>(t.piece(token).front())].push_back(token);
    }
    if (by_byte.empty()) return json::string("dead end behind: " + t.decode(output));
    // Half of the time what closes something, so that most outputs end.
    std::vector<int> closing;
    for (const int byte : {-1, static_cast<int>('"'), static_cast<int>('}'), static_cast<int>(']')})
      if (by_byte.contains(byte)) closing.push_back(byte);
    auto chosen = std::next(by_byte.begin(), static_cast<std::ptrdiff_t>(random() % by_byte.size()));
    if (!closing.empty() && random() % 2 == 0) chosen = by_byte.find(closing[random() % closing.size()]);
    const auto& tokens = chosen->second;
    if (chosen->first == -1) return json::string(t.decode(output));
    output.push_back(tokens[random() % tokens.size()]);
  }
  return nullptr;
}

json::object answer(const tokenizer::tokenizer& t, grammar::compiler& compiler, const json::object& line) {
  const auto begin = std::chrono::steady_clock::now();
  const auto compiled = compiler.compile(source_of(line));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!compiled)
    return {{"seconds", seconds},
            {"error",
             {{"code", json::string(to_string(compiled.error().code()))},
              {"message", compiled.error().message()}}}};
  const auto cursor = (*compiled)->begin();
  json::array accepted;
  if (const auto* texts = line.if_contains("texts"))
    for (const auto& text : texts->as_array()) accepted.push_back(accepts(t, *cursor, text.as_string()));
  json::array outputs;
  const auto number = [&](const char* key, std::size_t fallback) {
    const auto* value = line.if_contains(key);
    return value == nullptr ? fallback : value->to_number<std::size_t>();
  };
  std::mt19937 random(static_cast<std::uint32_t>(number("seed", 0)));
  for (std::size_t i = 0; i < number("samples", 0); ++i)
    outputs.push_back(sample(t, *cursor, random, number("max_tokens", 256)));
  return {{"accepted", std::move(accepted)}, {"outputs", std::move(outputs)}, {"seconds", seconds}};
}

} // namespace
} // namespace paceline

int main(int argc, char** argv) {
  using namespace paceline;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 1) {
    std::cerr << "usage: constrain_lines GGUF\n";
    return 2;
  }
  const auto vocabulary = open(arguments[0]);
  if (!vocabulary) {
    std::cerr << vocabulary.error().message() << "\n";
    return 1;
  }
  const auto compiler = grammar::make_compiler(*vocabulary, static_cast<std::uint32_t>(vocabulary->size()),
                                               {*vocabulary->eos()});
  for (std::string line; std::getline(std::cin, line);)
    std::cout << json::serialize(answer(*vocabulary, *compiler, json::parse(line).as_object())) << "\n"
              << std::flush;
}
