#include "config/yaml_reader.hpp"

#include <exception>
#include <istream>
#include <streambuf>
#include <unordered_set>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace paceline::config {

namespace {

constexpr std::size_t max_depth = 32;

/// Ends reading; the error has been recorded.
struct stop_reading : std::exception {};

place place_of(const YAML::Mark& mark) {
  place p;
  p.line = static_cast<std::uint32_t>(mark.line + 1);
  p.column = static_cast<std::uint32_t>(mark.column + 1);
  return p;
}

/// Builds nodes from the parser's events. (yaml-cpp's own tree drops duplicate keys and shares aliased
/// nodes.)
class tree_builder : public YAML::EventHandler {
 public:
  tree_builder(std::string_view text, std::string_view file_name, std::vector<std::string>& errors)
      : text_(text), file_(file_name), errors_(errors) {}

  node root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (num_documents_++ > 0) refuse(place_of(mark), "only one document is allowed");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "?", anchor);
    node n;
    n.place = place_of(mark);
    add(std::move(n));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(place_of(mark), "aliases (*name) are not allowed; write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    if (!is_closed(static_cast<std::size_t>(mark.pos))) refuse(place_of(mark), "a quote without its end");
    node n;
    n.type = node::kind::scalar;
    n.place = place_of(mark);
    n.text = value;
    n.quoted = tag == "!";
    add(std::move(n));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    open(mark, node::kind::list);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    open(mark, node::kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A map or list being read.
  struct level {
    node value;
    std::unordered_set<std::string> keys; ///< of the map that is being read
    std::string key;                      ///< of the entry whose value comes next
    place key_place;
    bool has_key = false;
  };

  [[noreturn]] void refuse(const place& where, std::string_view rule) {
    complain_at(where, rule);
    throw stop_reading();
  }
  void complain_at(const place& where, std::string_view rule) {
    errors_.push_back(complain(where, file_, {}, rule));
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      refuse(place_of(mark), "anchors (&name) are not allowed; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") refuse(place_of(mark), "tags (!!name) are not allowed");
  }

  /// False for a quoted scalar that the end of the text cuts off, which yaml-cpp accepts.
  bool is_closed(std::size_t begin) const {
    if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'')) return true;
    const auto quote = text_[begin];
    for (auto i = begin + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\')
        ++i;
      else if (text_[i] == quote && quote == '\'' && i + 1 < text_.size() && text_[i + 1] == quote)
        ++i;
      else if (text_[i] == quote)
        return true;
    }
    return false;
  }

  void open(const YAML::Mark& mark, node::kind type) {
    if (levels_.size() == max_depth) refuse(place_of(mark), "nested deeper than 32 levels");
    level l;
    l.value.type = type;
    l.value.place = place_of(mark);
    levels_.push_back(std::move(l));
  }

  void close() {
    auto value = std::move(levels_.back().value);
    levels_.pop_back();
    add(std::move(value));
  }

  void add(node value) {
    if (levels_.empty()) {
      root = std::move(value);
      return;
    }
    auto& parent = levels_.back();
    if (parent.value.type == node::kind::list) {
      parent.value.items.push_back(std::move(value));
    } else if (!parent.has_key) {
      take_key(parent, std::move(value));
    } else {
      parent.has_key = false;
      if (!parent.keys.insert(parent.key).second)
        return complain_at(parent.key_place, "the key '" + parent.key + "' is there already");
      parent.value.entries.push_back({std::move(parent.key), parent.key_place, std::move(value)});
    }
  }

  void take_key(level& parent, node key) {
    if (key.type != node::kind::scalar) refuse(key.place, "a key must be a text");
    if (key.text == "<<") refuse(key.place, "merge keys (<<) are not allowed");
    parent.key = std::move(key.text);
    parent.key_place = key.place;
    parent.has_key = true;
  }

  std::string_view text_;
  std::string_view file_;
  std::vector<std::string>& errors_;
  std::vector<level> levels_;
  std::uint32_t num_documents_ = 0;
};

/// A stream over text owned by the caller.
class text_buffer : public std::streambuf {
 public:
  explicit text_buffer(std::string_view text) {
    auto* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

} // namespace

node read_yaml(std::string_view text, std::string_view file_name, std::vector<std::string>& errors) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  // yaml-cpp would read these as UTF-16.
  if (text.starts_with('\xFE') || text.starts_with('\xFF') || text.find('\0') != std::string_view::npos) {
    errors.push_back(std::string(file_name).append(": is not UTF-8 text"));
    return {};
  }
  tree_builder builder(text, file_name, errors);
  try {
    text_buffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const stop_reading&) {
    // Later errors would only be consequences of this one.
  } catch (const YAML::Exception& e) {
    errors.push_back(complain(place_of(e.mark), file_name, {}, "not valid YAML: " + e.msg));
  }
  return std::move(builder.root);
}

} // namespace paceline::config
