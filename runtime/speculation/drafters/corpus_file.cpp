#include "runtime/speculation/drafters/corpus_file.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace paceline::speculation {

namespace {

constexpr std::uintmax_t max_corpus_bytes = std::uintmax_t{256} << 20U;

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

expected<std::vector<token_id>> parse_ids(const drafter_parts& parts, const std::string& text) {
  std::vector<token_id> tokens;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    while (at != end && is_space(*at)) ++at;
    if (at == end) return tokens;
    std::int32_t id = -1;
    const auto [stop, failure] = std::from_chars(at, end, id);
    const bool whole = failure == std::errc{} && (stop == end || is_space(*stop));
    if (!whole || id < 0 || static_cast<std::uint32_t>(id) >= parts.target_vocab_size)
      return bad_option(parts.options, "corpus " + parts.options.corpus + ": number " +
                                           std::to_string(tokens.size() + 1) + " is not a token id below " +
                                           std::to_string(parts.target_vocab_size));
    tokens.push_back(token_id{id});
    at = stop;
  }
}

} // namespace

expected<std::vector<token_id>> read_corpus(const drafter_parts& parts) {
  const std::string& path = parts.options.corpus;
  if (path.empty()) return std::vector<token_id>{};
  std::error_code failure;
  const auto size = std::filesystem::file_size(path, failure);
  if (failure) return bad_option(parts.options, "corpus " + path + ": " + failure.message());
  if (size > max_corpus_bytes)
    return bad_option(parts.options, "corpus " + path + ": is larger than 256 MiB");
  std::string text(static_cast<std::size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) return bad_option(parts.options, "corpus " + path + ": cannot be read");
  if (path.ends_with(".ids")) return parse_ids(parts, text);
  if (!parts.encode)
    return bad_option(parts.options, "corpus " + path + ": without a tokenizer only .ids files can be read");
  auto tokens = parts.encode(text);
  if (!tokens) return bad_option(parts.options, "corpus " + path + ": " + tokens.error().message());
  return tokens;
}

} // namespace paceline::speculation
