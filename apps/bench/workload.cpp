#include "apps/bench/workload.hpp"

#include "apps/commands/local_engine.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json/parse.hpp>

#include <cstdio>
#include <fstream>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

expected<workload_prompt> read_row(const std::string& line, const served_model& model) {
  boost::system::error_code failed;
  const json::value parsed = json::parse(line, failed);
  const json::object* const item = failed ? nullptr : parsed.if_object();
  if (item == nullptr) return error(errc::invalid_file, "not a JSON object");
  const json::value* const messages = item->if_contains("messages");
  const json::value* const prompt = item->if_contains("prompt");
  workload_prompt row;
  if (messages != nullptr && messages->is_array())
    row.messages = messages->get_array();
  else if (prompt != nullptr && prompt->is_string())
    row.text = prompt->get_string();
  else
    return error(errc::invalid_file, "neither \"messages\" nor \"prompt\"");
  auto tokens = row.messages.empty() ? model.vocabulary().encode(row.text) : chat_prompt(model, row.messages);
  if (!tokens) return std::move(tokens).error();
  row.tokens = *std::move(tokens);
  return row;
}

} // namespace

expected<std::vector<workload_prompt>> read_workload(const std::string& path, std::uint32_t most,
                                                     std::uint32_t max_tokens, const served_model& model) {
  std::ifstream file(path);
  if (!file) return error(errc::not_found, path + ": cannot be opened");
  std::vector<workload_prompt> prompts;
  std::uint32_t number = 0;
  for (std::string line; std::getline(file, line) && (most == 0 || prompts.size() < most);) {
    const std::string place = path + ":" + std::to_string(++number);
    auto row = read_row(line, model);
    if (!row) return std::move(row).error().within(place);
    if (row->tokens.size() + max_tokens > model.context_length()) {
      std::fprintf(stderr, "%s: %zu tokens do not fit the context, left out\n", place.c_str(),
                   row->tokens.size());
      continue;
    }
    prompts.push_back(*std::move(row));
  }
  if (prompts.empty()) return error(errc::invalid_file, path + ": no prompts");
  return prompts;
}

} // namespace paceline::apps::bench
