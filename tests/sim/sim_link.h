#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tarrymq/broker/broker.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"

namespace tarry::sim {

/// A connection at the end of a pipe, as net's link would hold it: bytes arrive when the simulation
/// says so, and what the broker sends fits only as far as the client has read.
class SimLink final : public OutboundPort,
                      public TurnHook,
                      public std::enable_shared_from_this<SimLink> {
 public:
  struct Ends {
    std::function<void(uint64_t consumed)> consumed;  // the broker has taken so many bytes in all
    std::function<void()> ended;                      // the broker's side is about to end
  };
  SimLink(Broker& broker, size_t home, Shard& shard, const SessionSettings& settings, size_t window,
          Ends ends);
  ~SimLink() override;

  // -- The client's side, between turns

  void start();
  void write(std::string_view bytes) { wire_ += bytes; }
  size_t on_the_wire() const { return wire_.size(); }
  /// Up to `most` bytes reach the broker's socket. False: nothing to do.
  bool arrive(size_t most);
  bool readable() const { return !socket_.empty(); }
  /// Takes what the broker's socket took. `stamp` says when it took the byte at an offset of the
  /// stream.
  std::string read();
  /// When the socket took the byte before `offset`, in ms of broker time.
  uint64_t stamp_ms(uint64_t offset) const;
  /// The client's end is cut; the broker notices at its next turn.
  void cut();
  bool ended() const { return ended_; }
  /// What was appended by the broker, taken by the socket or not, and not read yet. For looking
  /// ahead.
  std::string look_ahead() const;
  size_t unsent() const { return outbound_.unsent_bytes(); }
  uint64_t appended() { return outbound_.appended(); }
  Shard& shard() { return shard_; }
  /// The process is gone: no good-bye.
  void destroy();

  // -- OutboundPort

  OutboundBuffer& outbound() override { return outbound_; }
  void request_flush() override;
  void set_reading(bool on) override;
  void close_after_flush() override;
  void abort() override;
  void on_turn_end() override;

 private:
  void offer();
  void finish();

  Broker& broker_;
  const size_t home_;
  Shard& shard_;
  const SessionSettings& settings_;
  const size_t window_;
  const Ends ends_;
  std::unique_ptr<Connection> connection_;
  OutboundBuffer outbound_;
  std::string wire_, pending_, socket_;
  std::deque<std::pair<uint64_t, uint64_t>> stamps_;  // end offset, ms
  uint64_t consumed_ = 0;
  bool reading_ = true, closing_ = false, failed_ = false, offer_wanted_ = false, ended_ = false;
};

}  // namespace tarry::sim
