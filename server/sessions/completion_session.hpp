#pragma once

#include "protocol/wire/completion_replies.hpp"
#include "protocol/wire/whole_reply.hpp"
#include "server/http/reply_channel.hpp"
#include "server/sessions/choice_reader.hpp"
#include "server/sessions/end_tokens.hpp"
#include "server/sessions/generation_group.hpp"
#include "server/sessions/preparation.hpp"
#include "server/sessions/stream_chunk.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::server {

/// Answers one completion or chat request, streamed or whole. It runs on its connection's executor and has
/// the states preparing, generating and done. If nothing has been sent, an error becomes an HTTP status. In a
/// stream that has begun it becomes an error event. If a reply that is not streamed has begun, the connection
/// is closed.
class completion_session final : public exchange,
                                 public generation_observer,
                                 public std::enable_shared_from_this<completion_session> {
 public:
  completion_session(const edge_context& edge, executor_ptr executor, std::shared_ptr<reply_channel> channel,
                     caller who);

  /// `prepared`: the request, parsed and prepared by a thread of edge_pool, or the error to send.
  void start(wire::parsed<prepared_completion> prepared);

  void on_writable() override;
  void on_idle() override;
  void on_shutdown() override;
  void on_disconnect() override;
  void on_event(std::size_t sequence, const token_event& event) override;
  bool congested(std::size_t sequence) const override;

 private:
  /// The output of one choice so far.
  struct choice_state {
    choice_reader reader;
    wire::whole_choice whole;    ///< the whole output, if the reply is not streamed
    std::size_t text_offset = 0; ///< characters sent so far
    bool opened = false;
    bool ended = false;
  };

  void fail(const wire::api_error& failure);
  void begin_stream();
  /// Sends what `event` adds to a choice, or keeps it for the reply.
  void tell(std::size_t choice, const token_event& event);
  void stream_event(std::size_t choice, const token_event& event);
  bool open(std::size_t choice);
  void open_choices_before(std::size_t choice);
  void send(stream_chunk chunk);
  void keep_event(std::size_t choice, const token_event& event);
  /// Sends or keeps the hypotheses of a beam search, one for each choice. Returns the number of their tokens.
  std::uint32_t tell_hypotheses(std::size_t sequence, const token_event& event);
  void finish();
  /// Starts the reply that is not streamed: sends it at once if it is short, otherwise as fast as the channel
  /// accepts it.
  void reply_whole();
  /// Starts or continues to send a reply that would otherwise hold too many bytes, while later choices are
  /// still being generated.
  void begin_early();
  /// Adds the finished choices before the first unfinished one to the reply.
  void pass_on();
  void send_pieces();
  wire::reply_content begun_reply();
  std::size_t kept_bytes() const { return kept_bytes_ + (reply_ ? reply_->num_bytes() : 0); }
  void close();
  /// What `event` adds to its choice. If the request has `echo`, the first chunk of a choice includes the
  /// prompt.
  stream_chunk chunk_of(std::size_t choice, const token_event& event, wire::output_items items, bool opens);
  header_list headers() const;
  const shared_list<token_id>& prompt_of(std::size_t choice) const;

  const edge_context& edge_;
  executor_ptr executor_;
  std::shared_ptr<reply_channel> channel_; ///< null once done
  caller who_;
  time_point arrival_;
  prepared_completion request_;
  end_tokens ends_; ///< for chats: the end tokens, which are the same for all choices
  wire::reply_identity identity_;
  std::shared_ptr<const stream_terms> terms_; ///< shared by all chunks
  std::shared_ptr<generation_group> group_;
  std::vector<choice_state> choices_;
  std::unique_ptr<wire::whole_reply> reply_; ///< while the reply is sent in pieces
  std::size_t num_passed_on_ = 0;            ///< number of choices in `reply_`
  std::size_t kept_bytes_ = 0;               ///< bytes held for choices that are not in `reply_`
  wire::reply_totals totals_;
  wire::usage so_far_;
  bool streaming_ = false; ///< the reply is an event stream
};

} // namespace paceline::server
