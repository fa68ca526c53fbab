#pragma once

#include "protocol/wire/completion_replies.hpp"
#include "protocol/wire/whole_reply.hpp"
#include "server/http/reply_channel.hpp"
#include "server/sessions/generation_group.hpp"
#include "server/sessions/preparation.hpp"
#include "server/sessions/stream_chunk.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::server {

/// Answers one completion or chat request, streamed or whole. A state machine on its connection's executor:
/// waiting for preparation, generating, done. A refusal before the first token is an HTTP status; afterwards
/// it is an error event in the stream, because the 200 has gone out.
class completion_session final : public exchange,
                                 public generation_observer,
                                 public std::enable_shared_from_this<completion_session> {
 public:
  completion_session(const edge_context& edge, executor_ptr executor, std::shared_ptr<reply_channel> channel,
                     caller who);

  /// The request as the edge threads made it of the body.
  void start(wire::parsed<prepared_completion> prepared);

  void on_writable() override;
  void on_idle() override;
  void on_shutdown() override;
  void on_disconnect() override;
  void on_event(std::size_t sequence, const token_event& event) override;
  bool congested(std::size_t sequence) const override;

 private:
  /// One sequence as told so far.
  struct choice_state {
    wire::whole_choice whole;    ///< everything, kept when not streaming
    std::size_t text_offset = 0; ///< characters told so far
    bool opened = false;
    bool ended = false;
  };

  void fail(const wire::api_error& failure);
  void begin_stream();
  /// Tells the client, now or at the end, what `event` adds to one of its sequence's choices.
  void tell(std::size_t choice, const token_event& event);
  void stream_event(std::size_t choice, const token_event& event);
  void keep_event(std::size_t choice, const token_event& event);
  /// The results of a beam search, one a choice. Returns their tokens.
  std::uint32_t tell_hypotheses(std::size_t sequence, const token_event& event);
  void finish();
  /// Begins the reply that is not streamed: at once if it is short, else as far as the channel takes it.
  void reply_whole();
  /// A reply that would keep too much begins while later choices are generated.
  void begin_early();
  /// Choices that have ended, up to the first that has not, go into the reply.
  void pass_on();
  void send_pieces();
  wire::reply_content begun_reply();
  std::size_t kept_bytes() const { return kept_bytes_ + (reply_ ? reply_->num_bytes() : 0); }
  void close();
  /// What `event` adds to its choice; in the first event of an echoed prompt, the prompt too.
  stream_chunk chunk_of(std::size_t choice, const token_event& event, bool opens);
  header_list headers() const;
  const shared_list<token_id>& prompt_of(std::size_t choice) const;

  const edge_context& edge_;
  executor_ptr executor_;
  std::shared_ptr<reply_channel> channel_; ///< none once done
  caller who_;
  time_point arrival_;
  prepared_completion request_;
  wire::reply_identity identity_;
  std::shared_ptr<const stream_terms> terms_; ///< of all chunks
  std::shared_ptr<generation_group> group_;
  std::vector<choice_state> choices_;
  std::unique_ptr<wire::whole_reply> reply_; ///< while it is being sent in pieces
  std::size_t num_passed_on_ = 0;            ///< choices that are in `reply_`
  std::size_t kept_bytes_ = 0;               ///< of the others
  wire::reply_totals totals_;
  wire::usage so_far_;
  bool streaming_ = false; ///< events
};

/// Value of the header that lists ignored fields, or empty: the first twenty names.
std::string ignored_header(const std::vector<std::string>& names);

} // namespace paceline::server
