#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/net/output_budget.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace paceline::server {

/// The output that waits for a client. The queue decides when the client's session must pause (`congested`).
/// One write is outstanding at a time: `next_piece` or `next_bytes` begins it, and `written` ends it with the
/// number of bytes written. A write has at most 64 KiB even if the reply is larger, so that progress can be
/// distinguished from a stall.
///
/// A message may also be a source, which produces its bytes when its turn comes. The length of such a message
/// is unknown, so the queue is congested until the source has produced its last byte.
///
/// output_budget counts the waiting output of all connections. For this queue it counts the unsent bytes, the
/// memory that sources hold, and the bytes set by `keep`. A part that several sources of this queue share is
/// counted once.
class outbound_queue {
 public:
  static constexpr std::size_t slice_bytes = 64U << 10U;
  /// Above this number of unsent bytes, or above `bound` if that is smaller, no further request of the client
  /// is read.
  static constexpr std::size_t request_bound = 32U << 10U;

  /// A part of one message.
  struct piece {
    std::string_view bytes;
    bool ends_message = true;
  };

  /// `bound`: number of unsent bytes above which the queue is congested.
  explicit outbound_queue(std::size_t bound) : bound_(bound) {}

  /// Counts the waiting output in `claim`. Must be called first.
  void count_in(std::unique_ptr<output_budget::claim> claim) { claim_ = std::move(claim); }

  /// The client was identified as `tenant`.
  void belong_to(const std::string& tenant) {
    if (claim_) claim_->belong_to(tenant);
  }

  void push(std::string bytes) {
    num_bytes_ += bytes.size();
    waiting_.emplace_back(std::move(bytes));
    congested_ = congested_ || num_bytes_ > bound_;
    count(0);
  }
  void push(std::unique_ptr<wire::text_source> message) {
    ++num_sources_;
    source_bytes_ += message->num_bytes();
    for (const auto& part : message->shared())
      if (shared_[part.identity]++ == 0) source_bytes_ += part.num_bytes;
    waiting_.emplace_back(std::move(message));
    congested_ = true;
    count(0);
  }
  /// Sets the number of bytes that are held elsewhere for this client.
  void keep(std::size_t bytes) {
    kept_bytes_ = bytes;
    count(0);
  }
  bool writing() const noexcept { return writing_; }
  bool empty() const noexcept { return !has_next() && !writing_; }
  bool has_next() const noexcept { return !waiting_.empty() || source_ || offset_ < current_.size(); }

  /// Begins a write of the next slice of one message. There must be output (`has_next`), and no other write.
  piece next_piece() {
    begin_write();
    const auto bytes = slice();
    return {bytes, !source_ && offset_ + bytes.size() == current_.size()};
  }
  /// Like `next_piece`, but joins short messages, so that one write may have several of them.
  std::string_view next_bytes() {
    begin_write();
    while (offset_ == 0 && !source_ && !waiting_.empty() && current_.size() < slice_bytes) {
      const auto* next = std::get_if<std::string>(&waiting_.front());
      if (next == nullptr) break;
      current_ += *next;
      waiting_.pop_front();
    }
    return slice();
  }
  /// Ends the write, of which `count_taken` bytes were written; the rest is part of the next write. Returns
  /// true if this ends a congestion: no source has bytes left, and at most `bound` / 2 bytes are unsent. If
  /// the limit were `bound`, the state could change with every write.
  bool written(std::size_t count_taken) {
    writing_ = false;
    num_bytes_ -= count_taken;
    offset_ += count_taken;
    if (offset_ == current_.size()) {
      current_ = {}; // frees its memory, too: a reply may have been large
      offset_ = 0;
    }
    count(count_taken);
    if (!congested_ || num_sources_ > 0 || num_bytes_ > bound_ / 2) return false;
    congested_ = false;
    return true;
  }
  bool congested() const noexcept { return congested_; }
  /// Unsent bytes, plus bytes held in order to generate further output.
  std::size_t held_bytes() const noexcept { return num_bytes_ + source_bytes_ + kept_bytes_; }
  /// True if the client must read output before its next request or message is read.
  bool holds_back_requests() const noexcept {
    return num_sources_ > 0 || num_bytes_ > std::min(bound_, request_bound);
  }

 private:
  void begin_write() {
    writing_ = true;
    if (!current_.empty()) return;
    if (!source_) {
      auto next = std::move(waiting_.front());
      waiting_.pop_front();
      if (auto* bytes = std::get_if<std::string>(&next)) {
        current_ = std::move(*bytes);
        return;
      }
      source_ = std::get<std::unique_ptr<wire::text_source>>(std::move(next));
    }
    const auto kept = source_->num_bytes();
    current_ = source_->next(slice_bytes);
    num_bytes_ += current_.size();
    source_bytes_ -= kept;
    if (!source_->at_end()) {
      source_bytes_ += source_->num_bytes();
      return;
    }
    for (const auto& part : source_->shared()) {
      const auto found = shared_.find(part.identity);
      if (--found->second > 0) continue;
      shared_.erase(found);
      source_bytes_ -= part.num_bytes;
    }
    source_.reset();
    --num_sources_;
  }
  void count(std::size_t taken) {
    if (claim_) claim_->hold(held_bytes(), taken);
  }
  std::string_view slice() const { return std::string_view(current_).substr(offset_, slice_bytes); }

  std::size_t bound_;
  std::size_t num_bytes_ = 0;
  std::size_t num_sources_ = 0;  ///< sources with bytes left
  std::size_t source_bytes_ = 0; ///< bytes they hold
  std::size_t kept_bytes_ = 0;
  /// For each shared part, by its identity: the number of unfinished sources that share it.
  std::map<const void*, std::size_t> shared_;
  std::unique_ptr<output_budget::claim> claim_; ///< null: not counted
  std::deque<std::variant<std::string, std::unique_ptr<wire::text_source>>> waiting_;
  std::unique_ptr<wire::text_source> source_; ///< source of the message being written, if it has more bytes
  std::string current_;                       ///< the bytes being written
  std::size_t offset_ = 0;                    ///< how many of them were written
  bool writing_ = false;
  bool congested_ = false;
};

} // namespace paceline::server
