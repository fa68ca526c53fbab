// The daemon's edge with an echo as its session, for conformance suites for WebSocket. Sockets, request
// heads, admission, the upgrade and the connection are those of the daemon.
#include "server/server.hpp"

#include "scripted_backend.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

namespace paceline::server {
namespace {

/// Sends each message back, and reads the next one when the echo has been written. A message is complete when
/// it arrives here, so only the connection handles pings and closes between fragments.
class echo_session final : public frame_session {
 public:
  explicit echo_session(std::shared_ptr<frame_channel> channel) : channel_(std::move(channel)) {}

  void on_text(request_body message) override { echo(message, false); }
  void on_binary(request_body message) override { echo(message, true); }
  void on_overload() override { close(close_code::try_again); }
  void on_writable() override {
    if (channel_) channel_->read_next();
  }
  void on_disconnect() override { channel_.reset(); }
  void drain() override { close(close_code::going_away); }
  void expire() override { drain(); }
  void shut_down() override { drain(); }
  bool busy() const noexcept override { return false; }

 private:
  void echo(const request_body& message, bool binary) {
    if (!channel_) return;
    if (!message.begin_use()) return on_overload();
    channel_->send_binary(binary); // the last message was written, see `on_writable`
    channel_->send(std::string(message.text));
    if (!channel_->congested()) channel_->read_next(); // the queue is empty, so there is nothing to wait for
  }
  void close(close_code code) {
    if (channel_) std::exchange(channel_, nullptr)->close(code, "");
  }

  std::shared_ptr<frame_channel> channel_;
};

int serve() {
  config::server_options options;
  options.port = 0;
  options.max_body_bytes = options.body_memory_bytes = 64U << 20U; // the suite's largest message has 16 MiB
  options.send_buffer_bytes = 0;                                   // congested while anything waits
  auto server =
      http_server::start(std::make_unique<scripted_backend>(), options, {}, {}, {},
                         [](std::shared_ptr<frame_channel> channel) -> std::shared_ptr<frame_session> {
                           return std::make_shared<echo_session>(std::move(channel));
                         });
  if (!server) {
    std::cerr << server.error().message() << '\n';
    return EXIT_FAILURE;
  }
  std::cout << "listening on " << (*server)->address() << std::endl;
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  int which = 0;
  sigwait(&ending, &which);
  (*server)->stop(std::chrono::seconds(1));
  return EXIT_SUCCESS;
}

} // namespace
} // namespace paceline::server

int main() {
  sigset_t ending; // blocked before other threads exist
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return paceline::server::serve();
}
