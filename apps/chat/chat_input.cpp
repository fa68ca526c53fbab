#include "apps/chat/chat_input.hpp"

#include "config/node.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace paceline::apps {

namespace {

constexpr std::string_view quotes = "\"\"\"";

constexpr std::pair<std::string_view, chat_command> commands[] = {
    {"help", chat_command::help},       {"new", chat_command::fresh}, {"system", chat_command::system},
    {"drafter", chat_command::drafter}, {"race", chat_command::race}, {"trace", chat_command::trace},
    {"bye", chat_command::bye},         {"exit", chat_command::bye},  {"quit", chat_command::bye}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n";
  const auto begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

} // namespace

std::optional<std::string> message_lines::add(std::string_view line) {
  if (state_ == state::rest && line.starts_with(quotes)) {
    line.remove_prefix(quotes.size());
    state_ = state::quoted;
  }
  const auto end = state_ == state::quoted ? quotes : std::string_view("\\");
  const bool has_end = line.ends_with(end);
  if (has_end) line.remove_suffix(end.size());
  text_ += line;
  const bool goes_on = state_ == state::quoted ? !has_end : has_end;
  const bool is_quoted = state_ == state::quoted;
  if (goes_on) {
    if (state_ == state::rest) state_ = state::continued;
    if (!is_quoted || !text_.empty()) text_ += '\n'; // the line with the quotes alone adds no line break
    return std::nullopt;
  }
  // The line with the closing quotes alone adds no line break either.
  if (is_quoted && line.empty() && text_.ends_with('\n')) text_.pop_back();
  state_ = state::rest;
  return std::exchange(text_, {});
}

std::string message_lines::finish() {
  if (text_.ends_with('\n')) text_.pop_back(); // the line that follows did not come
  state_ = state::rest;
  return std::exchange(text_, {});
}

void message_lines::reset() {
  state_ = state::rest;
  text_.clear();
}

std::variant<std::string, chat_order, unknown_order> read_message(std::string message) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto word_end =
      std::find_if_not(message.begin() + (message.empty() ? 0 : 1), message.end(), is_letter);
  const bool ends_word = word_end == message.end() || *word_end == ' ' || *word_end == '\n';
  if (message.empty() || message.front() != '/' || word_end == message.begin() + 1 || !ends_word)
    return message;
  const std::string word(message.begin() + 1, word_end);
  const auto found = std::ranges::find(commands, word, &std::pair<std::string_view, chat_command>::first);
  if (found != std::end(commands))
    return chat_order{found->second, std::string(trimmed({word_end, message.end()}))};
  std::vector<std::string> names;
  for (const auto& [name, command] : commands) names.emplace_back(name);
  return unknown_order{word, std::string(config::nearest_name(word, names))};
}

std::string_view chat_help() noexcept {
  return R"(/new              forget the conversation; the system prompt stays
/system TEXT      set the system prompt; without TEXT there is none
/drafter NAME     draft with NAME, auto or none; without NAME, list what there is
/race [MESSAGE]   answer MESSAGE, or the last one, with and without speculation, and compare
/trace            colour tokens by origin, or stop doing so
/bye              end, as Ctrl-D does
A line that ends with \ goes on in the next one, and so does everything between """ and """.
Ctrl-C stops a reply and keeps what there is of it.
)";
}

} // namespace paceline::apps
