#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// Many short strings in one buffer, with an overhead of 4 bytes each. At most 4 GiB in total.
class string_list {
 public:
  void reserve(std::size_t num_strings, std::size_t num_bytes);
  void push_back(std::string_view string);
  std::size_t size() const noexcept { return ends_.size(); }
  std::string_view operator[](std::size_t index) const noexcept {
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return {arena_.data() + begin, ends_[index] - begin};
  }

 private:
  std::string arena_;
  std::vector<std::uint32_t> ends_;
};

} // namespace paceline::tokenizer
