#pragma once

#include "protocol/wire/text_source.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

/// A source for a text that is in memory once. Several connections may send the text at the same time.
class shared_text final : public wire::text_source {
 public:
  explicit shared_text(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}

  std::string next(std::size_t num_bytes) override {
    auto piece = text_->substr(at_, num_bytes);
    at_ += piece.size();
    return piece;
  }
  bool at_end() const noexcept override { return at_ == text_->size(); }
  std::size_t num_bytes() const noexcept override { return 0; }
  std::vector<shared_part> shared() const override { return {{text_.get(), text_->size()}}; }

 private:
  std::shared_ptr<const std::string> text_;
  std::size_t at_ = 0;
};

} // namespace paceline::server
