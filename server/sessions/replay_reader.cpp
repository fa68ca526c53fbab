#include "server/sessions/replay_reader.hpp"

#include <utility>

namespace paceline::server {

replay_reader::replay_reader(const edge_context& edge, executor_ptr executor, std::shared_ptr<replay_log> log,
                             std::weak_ptr<replay_sink> sink)
    : edge_(edge), executor_(std::move(executor)), log_(std::move(log)), sink_(std::move(sink)) {}

replay_reader::~replay_reader() {
  if (reader_) log_->detach(*reader_, edge_.now());
}

bool replay_reader::start(const replay_start& start) {
  const auto notify = [weak = weak_from_this(), executor = executor_] {
    executor->post([weak] {
      if (const auto reader = weak.lock()) reader->pump();
    });
  };
  reader_ = log_->attach(start, notify);
  if (reader_) notify(); // not at once: the sink must know this reader before it receives events
  return reader_.has_value();
}

void replay_reader::pump() {
  const auto self = shared_from_this(); // the sink may release this reader
  for (;;) {
    const auto sink = sink_.lock();
    if (!sink || !reader_ || sink->congested()) return;
    const auto batch = log_->take(*reader_, 16U << 10U);
    for (const auto& event : batch.events) sink->on_event(event);
    if (batch.replaced) {
      reader_.reset();
      return sink->on_replaced();
    }
    if (batch.finished) {
      log_->detach(*std::exchange(reader_, std::nullopt), edge_.now());
      return sink->on_finished(*log_->result());
    }
    if (batch.events.empty()) return;
  }
}

} // namespace paceline::server
