#include "runtime/tokenizer/known_spellings.hpp"

#include <algorithm>
#include <span>

namespace paceline::tokenizer {

namespace {

constexpr std::string_view generation_ends[] = {"<|eot_id|>",
                                                "<|im_end|>",
                                                "<|end|>",
                                                "<|return|>",
                                                "<|call|>",
                                                "<|flush|>",
                                                "<|calls|>",
                                                "<end_of_turn>",
                                                "<|end_of_turn|>",
                                                "<|endoftext|>",
                                                "<|eom_id|>",
                                                "<EOT>",
                                                "_<EOT>",
                                                "[EOT]",
                                                "[EOS]",
                                                "<|end_of_text|>",
                                                "<end_of_utterance>",
                                                "<eos>",
                                                "<turn|>",
                                                "<|tool_response>",
                                                "[e~[",
                                                "<｜end▁of▁sentence｜>",
                                                "<|eot|>"};

constexpr std::string_view fill_in_the_middle[] = {
    "<|fim_prefix|>", "<fim-prefix>",    "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",
    "▁<PRE>",         "<|code_prefix|>", "<|prefix|>",      "<|fim_suffix|>",  "<fim-suffix>",
    "<fim_suffix>",   "<｜fim▁hole｜>",  "<SUF>",           "▁<SUF>",          "<|code_suffix|>",
    "<|suffix|>",     "<|fim_middle|>",  "<fim-middle>",    "<fim_middle>",    "<｜fim▁end｜>",
    "<MID>",          "▁<MID>",          "<|code_middle|>", "<|middle|>"};

/// Padding, and the tokens that begin the next repository or file.
constexpr std::string_view middle_ends[] = {"<|fim_pad|>", "<fim-pad>",    "<fim_pad>",     "<PAD>",
                                            "[PAD]",       "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                            "<REPO>",      "<reponame>",   "<|file_sep|>",  "<|fim_sep|>"};

constexpr std::string_view visible[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

bool contains(std::span<const std::string_view> list, std::string_view spelling) noexcept {
  return std::find(list.begin(), list.end(), spelling) != list.end();
}

} // namespace

bool ends_generation(std::string_view spelling) noexcept {
  return contains(generation_ends, spelling) || contains(middle_ends, spelling);
}

bool is_control_spelling(std::string_view spelling) noexcept {
  return ends_generation(spelling) || contains(fill_in_the_middle, spelling);
}

bool is_visible_spelling(std::string_view spelling) noexcept { return contains(visible, spelling); }

} // namespace paceline::tokenizer
