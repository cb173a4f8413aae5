#include "perf/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "perf/wire.h"

namespace tarry::perf {
namespace {

constexpr size_t kInputBytes = 512 * 1024;

int connect_to(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    die("unknown host " + host);
  int fd = -1;
  for (addrinfo* a = found; a && fd < 0; a = a->ai_next) {
    fd = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
      ::close(fd);
      fd = -1;
    }
  }
  ::freeaddrinfo(found);
  if (fd < 0)
    die("cannot connect to " + host + ":" + std::to_string(port) + ": " + std::strerror(errno));
  int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  timeval patience{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

}  // namespace

void die(const std::string& line) {
  std::fprintf(stderr, "tarrymqperf: %s\n", line.c_str());
  std::fflush(stdout);
  ::_exit(1);
}

std::string queue_name(const Options& options, uint32_t index) {
  return options.queue_prefix + "." + std::to_string(index);
}

Link::Link(const Options& options) : Link(options, Idle{}) { in_.resize(kInputBytes); }

Link::Link(const Options& options, Idle) : fd_(connect_to(options.host, options.port)) {
  if (options.tls) tls_ = std::make_unique<Tls>(fd_, options.host);
  log_in(options);
}

ssize_t Link::send_bytes(std::string_view bytes) {
  return tls_ ? tls_->write(bytes) : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

ssize_t Link::receive_bytes(char* at, size_t size) {
  return tls_ ? tls_->read(at, size) : ::recv(fd_, at, size, 0);
}

void Link::log_in(const Options& options) {
  tell(std::string_view("AMQP\0\0\x09\x01", 8));
  read_method(0, 10, 10);
  Encoder start_ok;
  start_ok.raw(encode_table({{"product", "tarrymqperf"}}))
      .short_string("PLAIN")
      .long_string(std::string(1, '\0') + options.user + std::string(1, '\0') + options.password)
      .short_string("en_US");
  tell(method_frame(0, 10, 11, start_ok.bytes));
  std::string tune = read_method(0, 10, 30);
  uint32_t offered = load32(tune.data() + 2);
  if (offered != 0) frame_max_ = std::min(frame_max_, offered);
  tell(method_frame(0, 10, 31, Encoder().u16(load16(tune.data())).u32(frame_max_).u16(0).bytes));
  tell(method_frame(0, 10, 40, Encoder().short_string(options.vhost).short_string("").u8(0).bytes));
  read_method(0, 10, 41);
  call(20, 10, Encoder().short_string("").bytes, 11);
}

Link::~Link() {
  if (fd_ >= 0) ::close(fd_);
}

void Link::tell(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent = send_bytes(bytes);
    if (sent <= 0) die(std::string("send: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string Link::read_exactly(size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    ssize_t n = receive_bytes(bytes.data() + got, size - got);
    if (n <= 0)
      die(n == 0 ? "the broker closed the socket" : std::string("recv: ") + std::strerror(errno));
    got += static_cast<size_t>(n);
  }
  return bytes;
}

void Link::check_close(uint32_t key, std::string_view arguments) {
  if (key != kConnectionClose && key != kChannelClose && key != kBasicCancel) return;
  if (key == kBasicCancel) die("the broker cancelled the consumer");
  size_t length = static_cast<uint8_t>(arguments[2]);
  die("the broker closed the " + std::string(key == kChannelClose ? "channel: " : "connection: ") +
      std::to_string(load16(arguments.data())) + " " + std::string(arguments.substr(3, length)));
}

std::string Link::read_method(uint16_t channel, uint16_t class_id, uint16_t method_id) {
  for (;;) {
    std::string head = read_exactly(kFrameHead);
    std::string payload = read_exactly(load32(head.data() + 3) + 1);
    if (payload.back() != kFrameEnd) die("a frame without its end octet");
    payload.pop_back();
    if (head[0] != kMethodFrame) continue;  // a heartbeat, or contents that nobody waits for
    uint32_t key = load32(payload.data());
    check_close(key, std::string_view(payload).substr(4));
    if (load16(head.data() + 1) == channel && key == method_key(class_id, method_id))
      return payload.substr(4);
  }
}

std::string Link::call(uint16_t class_id, uint16_t method_id, std::string_view arguments,
                       uint16_t answer_id) {
  return call_on(1, class_id, method_id, arguments, answer_id);
}

std::string Link::call_on(uint16_t channel, uint16_t class_id, uint16_t method_id,
                          std::string_view arguments, uint16_t answer_id) {
  tell(method_frame(channel, class_id, method_id, arguments));
  return read_method(channel, class_id, answer_id);
}

void Link::close() {
  tell(method_frame(0, 10, 50, Encoder().u16(200).short_string("").u16(0).u16(0).bytes));
  read_method(0, 10, 51);
}

bool Link::confirmed() {
  for (;;) {
    std::string head = read_exactly(kFrameHead);
    std::string payload = read_exactly(load32(head.data() + 3) + 1);
    if (head[0] != kMethodFrame) continue;
    uint32_t key = load32(payload.data());
    check_close(key, std::string_view(payload).substr(4));
    if (key == kBasicAck || key == kBasicNack) return key == kBasicAck;
  }
}

void Link::make_asynchronous() { ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK); }

void Link::finish() {
  (void)send_some(method_frame(0, 10, 50, Encoder().u16(200).short_string("").u16(0).u16(0).bytes));
}

bool Link::flush() {
  while (out_begin_ < out.size()) {
    ssize_t sent = send_bytes(std::string_view(out).substr(out_begin_));
    if (sent < 0) {
      if (errno == EAGAIN) return false;
      die(std::string("send: ") + std::strerror(errno));
    }
    out_begin_ += static_cast<size_t>(sent);
  }
  out.clear();
  out_begin_ = 0;
  return true;
}

size_t Link::send_some(std::string_view bytes) {
  ssize_t sent = send_bytes(bytes);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN) die(std::string("send: ") + std::strerror(errno));
  return 0;
}

size_t Link::receive() {
  if (in_.empty()) in_.resize(kInputBytes);
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_.size() - in_end_ < in_.size() / 4) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  ssize_t got = receive_bytes(in_.data() + in_end_, in_.size() - in_end_);
  if (got < 0 && errno == EAGAIN) return 0;
  if (got <= 0)
    die(got == 0 ? "the broker closed the socket" : std::string("recv: ") + std::strerror(errno));
  in_end_ += static_cast<size_t>(got);
  return static_cast<size_t>(got);
}

std::string exchange_name(const Options& options) {
  return options.exchange_type.empty() ? "" : options.queue_prefix + ".exchange";
}

std::string routing_key(const Options& options, uint32_t queue) {
  if (options.exchange_type == "fanout") return "";
  if (options.exchange_type.empty()) return queue_name(options, queue);
  std::string number = std::to_string(queue);
  return "perf.k" + std::string(6 - std::min<size_t>(6, number.size()), '0') + number + ".event";
}

void declare_queue(Link& link, const std::string& name, bool durable, const Arguments& arguments) {
  constexpr uint8_t kDurable = 2;
  Encoder declare;
  declare.u16(0).short_string(name).u8(durable ? kDurable : 0).raw(encode_table(arguments));
  link.call(50, 10, declare.bytes, 11);
}

void delete_queue(Link& link, const std::string& name) {
  link.call(50, 40, Encoder().u16(0).short_string(name).u8(0).bytes, 41);
}

void declare_queues(const Options& options, const Arguments& extra) {
  delete_queues(options);
  Link link(options);
  auto arguments = options.queue_arguments;
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  auto bind = [&](uint32_t queue, const std::string& pattern) {
    Encoder bound;
    bound.u16(0)
        .short_string(queue_name(options, queue))
        .short_string(exchange_name(options))
        .short_string(pattern);
    link.call(50, 20, bound.u8(0).raw(encode_table({})).bytes, 21);
  };
  if (!options.exchange_type.empty()) {
    Encoder declare;
    declare.u16(0)
        .short_string(exchange_name(options))
        .short_string(options.exchange_type)
        .u8(options.durable ? 2 : 0);
    link.call(40, 10, declare.raw(encode_table({})).bytes, 11);
  }
  for (uint32_t i = 0; i < options.queues; ++i) {
    declare_queue(link, queue_name(options, i), options.durable, arguments);
    if (options.exchange_type == "fanout") bind(i, "");
    if (options.exchange_type == "topic") {
      // One binding that matches, by `#`, and two that a matcher has to turn down.
      std::string key = routing_key(options, i);
      bind(i, key.substr(0, key.rfind('.')) + ".#");
      bind(i, "*.nobody." + queue_name(options, i));
      bind(i, "#.never." + std::to_string(i));
    }
  }
}

void delete_queues(const Options& options) {
  Link link(options);
  for (uint32_t i = 0; i < options.queues; ++i) delete_queue(link, queue_name(options, i));
  if (!options.exchange_type.empty()) {
    link.call(40, 20, Encoder().u16(0).short_string(exchange_name(options)).u8(0).bytes, 21);
  }
}

void start_consuming(Link& link, const Options& options, uint32_t queue, bool no_ack) {
  link.call(60, 10, Encoder().u32(0).u16(static_cast<uint16_t>(options.prefetch)).u8(0).bytes, 11);
  consume(link, queue_name(options, queue), no_ack);
}

void consume(Link& link, const std::string& queue, bool no_ack) {
  constexpr uint8_t kNoAck = 2;
  Encoder consume;
  consume.u16(0)
      .short_string(queue)
      .short_string("c")
      .u8(no_ack ? kNoAck : 0)
      .raw(encode_table({}));
  // The answer stays unread: deliveries may stand right behind it, and the asynchronous side skips
  // it.
  link.tell(method_frame(1, 60, 20, consume.bytes));
}

}  // namespace tarry::perf
