#include "runtime/model/loader/text_part.hpp"

#include "runtime/model/loader/report/report_text.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <iterator>

namespace paceline::model {

namespace {

/// How tensor names begin if the language model is a part of a model, and if it was saved alone.
struct prefix_pair {
  std::string_view nested;
  std::string_view alone;
};

constexpr prefix_pair prefixes[] = {
    {"model.language_model.", "model."},
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
};

/// Words in the names of other parts.
constexpr std::string_view words_beside_text[] = {
    "vision", "visual", "audio", "multi_modal_projector", "mm_projector", "image_newline",
};

const prefix_pair* prefix_of(std::string_view name) noexcept {
  for (const prefix_pair& pair : prefixes)
    if (name.starts_with(pair.nested)) return &pair;
  return nullptr;
}

} // namespace

std::string to_text(const skipped_tensors& skipped) {
  if (skipped.num_tensors == 0) return {};
  std::string parts;
  if (skipped.num_mtp_tensors != skipped.num_tensors) parts = "vision and audio parts";
  if (skipped.num_mtp_tensors != 0)
    parts += std::string(parts.empty() ? "" : " and of ") +
             "a module for multi-token prediction in a form that no drafter reads";
  return std::to_string(skipped.num_tensors) + (skipped.num_tensors == 1 ? " tensor (" : " tensors (") +
         size_text(skipped.num_bytes) + ") of " + parts + (skipped.num_tensors == 1 ? " is" : " are") +
         " not used";
}

bool is_beside_text(std::string_view name, tensor_naming naming) noexcept {
  if (naming == tensor_naming::gguf)
    return name.starts_with("v.") || name.starts_with("a.") || name.starts_with("mm.") ||
           name.starts_with(mtp_prefix);
  if (prefix_of(name) != nullptr) return false;
  return std::ranges::any_of(
      words_beside_text, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

std::string name_alone(std::string_view name) {
  if (const auto of_mtp = mtp_name_alone(name); !of_mtp.empty()) return std::string(of_mtp);
  const prefix_pair* const pair = prefix_of(name);
  if (pair == nullptr) return std::string(name);
  return std::string(pair->alone).append(name.substr(pair->nested.size()));
}

std::string name_like(std::string_view alone, std::string_view example) {
  const prefix_pair* const pair = prefix_of(example);
  if (pair == nullptr) return std::string(alone);
  // If the names begin with "language_model.", so does the name of the head.
  if (pair != std::begin(prefixes)) return "language_model." + std::string(alone);
  if (!alone.starts_with(pair->alone)) return std::string(alone);
  return std::string(pair->nested).append(alone.substr(pair->alone.size()));
}

const boost::json::object& text_members(const boost::json::object& config) noexcept {
  const auto* const text = config.if_contains("text_config");
  return text != nullptr && text->is_object() ? text->get_object() : config;
}

} // namespace paceline::model
