#pragma once

#include "protocol/wire/output/output_item.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::wire {

/// Numbers the calls of one reply and writes their items. Calls beyond the limit are dropped.
class call_writer {
 public:
  /// `make_id` gives a new id for each call.
  call_writer(std::uint32_t max_calls, std::function<std::string()> make_id)
      : max_calls_(max_calls), make_id_(std::move(make_id)) {}

  void begin(std::string_view function, output_items& out) {
    open_ = true;
    has_arguments_ = false;
    if (++num_begun_ <= max_calls_)
      out.push_back({output_item::kind::call_begin, std::string(function), num_begun_ - 1, make_id_()});
  }
  void arguments(std::string_view json, output_items& out) {
    has_arguments_ = has_arguments_ || !json.empty();
    if (num_begun_ <= max_calls_) append(out, output_item::kind::call_arguments, json, num_begun_ - 1);
  }
  /// Ends the open call, if there is one. A call without arguments gets an empty object. Not to be called if
  /// the output was cut off within the call.
  void end(output_items& out) {
    if (!open_) return;
    if (!has_arguments_) arguments("{}", out);
    open_ = false;
    if (num_begun_ <= max_calls_) out.push_back({output_item::kind::call_end, {}, num_begun_ - 1, {}});
  }

  /// Number of calls that were begun, including dropped ones.
  std::uint32_t num_begun() const noexcept { return num_begun_; }
  /// Number of calls that were written.
  std::uint32_t num_calls() const noexcept { return num_begun_ < max_calls_ ? num_begun_ : max_calls_; }
  /// True if the last permitted call has ended: all later output is dropped.
  bool is_full() const noexcept { return num_begun_ > max_calls_ || (num_begun_ == max_calls_ && !open_); }

 private:
  std::uint32_t max_calls_;
  std::function<std::string()> make_id_;
  std::uint32_t num_begun_ = 0;
  bool open_ = false;
  bool has_arguments_ = false;
};

} // namespace paceline::wire
