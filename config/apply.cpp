#include "config/apply.hpp"

#include "config/load.hpp"
#include "config/scalar.hpp"
#include "runtime/base/joined.hpp"

#include <algorithm>
#include <utility>

namespace paceline::config {

namespace {

/// Keys that are reserved, but that this build does not offer.
struct refused_key {
  std::string_view path;
  std::string_view rule;
};
constexpr refused_key refused_keys[] = {
    {"remote_workers", "draft workers on other machines are not offered by this build"},
};

class applier {
 public:
  applier(std::string_view file_name, origins& from, std::vector<std::string>& errors)
      : file_(file_name), from_(from), errors_(errors) {}

  std::set<std::string, std::less<>> wrong_sections;

  /// Applies `map`, which has options of `object`. They belong to section `section` of `group`. `base` is the
  /// path of the object itself.
  void apply_map(const node& map, const option_group& group, void* object, const std::string& base,
                 const std::string& section) {
    const auto here = join(base, section);
    if (map.type != node::kind::map)
      return fail(map.place, here,
                  "must be a map with keys among " + joined(group.names_in(section), ", ") + ", not " +
                      std::string(describe(map)));
    for (const auto& e : map.entries) {
      const auto path = join(section, e.key);
      if (const auto* o = group.find(path))
        apply_option(e.value, *o, object, join(base, path));
      else if (group.is_section(path))
        apply_map(e.value, group, object, base, path);
      else if (section.empty() && group.elements != nullptr && e.key == group.elements->list)
        apply_list(e.value, group, object, join(base, path));
      else if (!is_refused(e, join(base, path)))
        fail_unknown(e, group, section, here);
    }
  }

 private:
  void apply_list(const node& items, const option_group& group, void* object, const std::string& path) {
    if (items.type != node::kind::list)
      return fail(items.place, path, "must be a list, not " + std::string(describe(items)));
    const auto most = group.elements->most;
    if (items.items.size() > most)
      return fail(items.place, path,
                  "has " + std::to_string(items.items.size()) + " elements; at most " + std::to_string(most) +
                      " are allowed");
    for (std::size_t i = 0; i < items.items.size(); ++i)
      apply_map(items.items[i], *group.elements, group.append(object), join(path, std::to_string(i)), {});
  }

  void apply_option(const node& n, const option& o, void* object, const std::string& path) {
    auto v = o.type == value_type::text_list ? text_list(n, path) : scalar(n, o, path);
    if (!v) return;
    o.set(object, *v);
    from_[path] = n.place;
  }

  std::optional<value> scalar(const node& n, const option& o, const std::string& path) {
    const bool is_word = o.type == value_type::text || o.type == value_type::choice;
    if (n.type != node::kind::scalar || (n.quoted && !is_word)) {
      fail(n.place, path, "must be " + allowed_values(o) + ", not " + std::string(describe(n)));
      return std::nullopt;
    }
    auto v = parse_scalar(o, n.text);
    if (v) return *std::move(v);
    fail(n.place, path, v.error().message());
    return std::nullopt;
  }

  /// A list of scalars in the file; comma-separated texts elsewhere.
  std::optional<value> text_list(const node& n, const std::string& path) {
    std::vector<std::string> texts;
    if (n.type == node::kind::scalar && n.place.source != place::kind::file) {
      for (std::string_view rest = n.text; !rest.empty();) {
        const auto end = std::min(rest.find(','), rest.size());
        texts.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      return texts;
    }
    const auto is_scalar = [](const node& item) { return item.type == node::kind::scalar; };
    if (n.type != node::kind::list || !std::ranges::all_of(n.items, is_scalar)) {
      fail(n.place, path, "must be a list of texts");
      return std::nullopt;
    }
    for (const auto& item : n.items) texts.push_back(item.text);
    return texts;
  }

  bool is_refused(const entry& e, std::string_view path) {
    const auto key = std::ranges::find(refused_keys, path, &refused_key::path);
    if (key == std::ranges::end(refused_keys)) return false;
    fail(e.place, path, key->rule);
    return true;
  }

  void fail_unknown(const entry& e, const option_group& group, const std::string& section,
                    std::string_view here) {
    auto rule = "unknown key '" + e.key.substr(0, 64) + "'";
    if (errors_.size() >= max_errors) return fail(e.place, here, rule); // counted, but not shown
    const auto names = group.names_in(section);
    const auto near = nearest_name(e.key, names);
    if (!near.empty())
      rule.append("; did you mean '").append(near).append("'?");
    else
      rule.append("; known are ").append(joined(names, ", "));
    fail(e.place, here, rule);
  }

  static std::string join(std::string_view front, std::string_view back) {
    if (front.empty() || back.empty()) return std::string(front.empty() ? back : front);
    return std::string(front) + '.' + std::string(back);
  }
  void fail(const place& where, std::string_view path, std::string_view rule) {
    errors_.push_back(complain(where, file_, path, rule));
    const auto section = section_of(path);
    if (!wrong_sections.contains(section)) wrong_sections.emplace(section);
  }

  std::string_view file_;
  origins& from_;
  std::vector<std::string>& errors_;
};

} // namespace

std::set<std::string, std::less<>> apply(const node& root, std::string_view file_name, daemon_config& config,
                                         origins& from, std::vector<std::string>& errors) {
  applier applies(file_name, from, errors);
  applies.apply_map(root, root_options(), &config, {}, {});
  return std::move(applies.wrong_sections);
}

std::string_view section_of(std::string_view path) {
  const auto first = std::min(path.find('.'), path.size());
  if (path.substr(0, first) != "models" || first == path.size()) return path.substr(0, first);
  return path.substr(0, path.find('.', first + 1));
}

} // namespace paceline::config
