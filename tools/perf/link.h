#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perf/options.h"
#include "perf/tls.h"
#include "perf/wire.h"

namespace tarry::perf {

/// Ends the program with one line on stderr and status 1: the generator has nothing to save.
[[noreturn]] void die(const std::string& line);

/// One AMQP connection with channel 1. It blocks while it is set up; then make_asynchronous(),
/// after which frames are written from `out` and read into `in`. One thread.
class Link {
 public:
  /// Connects, logs in, opens the vhost and channel 1. Heartbeats off.
  explicit Link(const Options& options);
  /// The same with a receive buffer made only when something is received: for thousands that are
  /// held.
  struct Idle {};
  Link(const Options& options, Idle);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int fd() const { return fd_; }
  uint32_t frame_max() const { return frame_max_; }

  /// A method on channel 1 and the method that answers it (its arguments are returned). Blocking.
  std::string call(uint16_t class_id, uint16_t method_id, std::string_view arguments,
                   uint16_t answer_id);
  /// The same on another channel.
  std::string call_on(uint16_t channel, uint16_t class_id, uint16_t method_id,
                      std::string_view arguments, uint16_t answer_id);
  /// Waits for an answer to what tell() sent on channel 1.
  void await(uint16_t class_id, uint16_t answer_id) { read_method(1, class_id, answer_id); }
  /// connection.close and its answer.
  void close();
  /// A method without an answer. Blocking.
  void tell(std::string_view bytes);

  /// Waits for the next confirm; false when it is a nack. Blocking.
  bool confirmed();

  void make_asynchronous();
  /// connection.close without waiting for its answer, when the socket takes it; what was sent
  /// before is handled first.
  void finish();
  /// Sends what it can of `out`. False: the socket is full, wait for EPOLLOUT.
  bool flush();
  /// Sends what it can of foreign bytes while `out` is empty; how many the socket took.
  size_t send_some(std::string_view bytes);
  /// One recv into the input buffer; bytes received, 0 when there was nothing.
  size_t receive();
  /// What was received and not consumed.
  std::string_view input() const { return {in_.data() + in_begin_, in_end_ - in_begin_}; }
  void consume(size_t size) { in_begin_ += size; }
  /// Stops the program if this method frame payload says that the connection or the channel is
  /// closed.
  static void check_close(uint32_t key, std::string_view arguments);

  std::string out;

 private:
  std::string read_method(uint16_t channel, uint16_t class_id, uint16_t method_id);
  std::string read_exactly(size_t size);
  void log_in(const Options& options);
  ssize_t send_bytes(std::string_view bytes);
  ssize_t receive_bytes(char* at, size_t size);

  int fd_ = -1;
  std::unique_ptr<Tls> tls_;  // null: none
  uint32_t frame_max_ = 131072;
  size_t out_begin_ = 0;
  std::string in_;
  size_t in_begin_ = 0, in_end_ = 0;
};

/// Hands each whole frame of the input to `on_frame(type, payload)` and consumes it.
template <class OnFrame>
void each_frame(Link& link, OnFrame&& on_frame) {
  std::string_view input = link.input();
  size_t at = 0;
  while (input.size() - at >= kFrameOverhead) {
    size_t size = load32(input.data() + at + 3);
    if (input.size() - at < size + kFrameOverhead) break;
    if (input[at + kFrameHead + size] != kFrameEnd) die("a frame without its end octet");
    on_frame(static_cast<uint8_t>(input[at]), input.substr(at + kFrameHead, size));
    at += size + kFrameOverhead;
  }
  link.consume(at);
}

/// The exchange that publishers use, and the key that leads to a queue there.
std::string exchange_name(const Options& options);
std::string routing_key(const Options& options, uint32_t queue);
using Arguments = std::vector<std::pair<std::string, std::string>>;
void declare_queue(Link& link, const std::string& name, bool durable, const Arguments& arguments);
void delete_queue(Link& link, const std::string& name);
/// Declares the scenario's queues anew (deletes them first) on a connection of its own, with the
/// exchange and its bindings if there is one; `extra` is added to the arguments.
void declare_queues(const Options& options, const Arguments& extra);
void delete_queues(const Options& options);
/// basic.qos and basic.consume of a queue on a link.
void start_consuming(Link& link, const Options& options, uint32_t queue, bool no_ack);
/// basic.consume alone, of any queue, as consumer `c`.
void consume(Link& link, const std::string& queue, bool no_ack);

}  // namespace tarry::perf
