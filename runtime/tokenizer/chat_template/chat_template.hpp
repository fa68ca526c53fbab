#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/chat_template/options.hpp"

#include <boost/json/object.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace paceline::tokenizer {

namespace jinja {
struct template_tree;
}

/// A parsed chat template in Jinja2. Renders the same text as Python's jinja2 3.1 in the configuration given
/// by `template_options`; where jinja2 raises an exception, rendering returns an error. Copies share the
/// parsed template. Rendering does not change it, so any number of threads may render at the same time.
class chat_template {
 public:
  /// Parses a template of at most 1 MiB. Errors name the template and the line.
  static expected<chat_template> parse(std::string_view source, template_options options = {});

  /// The text for these variables. The template can access only the variables, the functions of `find_global`
  /// and jinja2's own filters and tests.
  expected<std::string> render(const boost::json::object& variables, const render_limits& limits = {}) const;

  const template_options& options() const noexcept { return options_; }

 private:
  chat_template(std::shared_ptr<const jinja::template_tree> tree, template_options options)
      : tree_(std::move(tree)), options_(std::move(options)) {}

  std::shared_ptr<const jinja::template_tree> tree_;
  template_options options_;
};

} // namespace paceline::tokenizer
