// The ceiling: what this machine can do with AMQP when a broker does next to nothing. Frames are
// parsed, a publish goes on as a delivery to the queue's consumers in turn, acknowledgements are
// read and forgotten. No checks, no order promised, one thread. It is there to be compared with
// (tools/bench), never to be used.
//   ceiling PORT [none|map|sync DIR]
//     none  nothing is stored        map   each message is copied into a mapped segment in DIR
//     sync  messages are written and fdatasync'ed once for all that one round of reads brought,
//     before they go on
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kInput = 512 * 1024, kOutputMark = 4 << 20, kSegment = 64 << 20;
constexpr size_t kHead = 7, kOver = 8;
constexpr int kReceives = 4;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "ceiling: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

uint16_t get16(const char* at) {
  uint16_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap16(v);
}
uint32_t get32(const char* at) {
  uint32_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap32(v);
}
uint64_t get64(const char* at) {
  uint64_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap64(v);
}
void put32(char* at, uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(at, &v, sizeof v);
}
void put64(char* at, uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(at, &v, sizeof v);
}

/// Where messages go that are stored: nowhere, into a mapping, or into a file that is synced by the
/// round.
class Keeper {
 public:
  Keeper(std::string_view kind, const std::string& dir)
      : map_(kind == "map"), sync_(kind == "sync") {
    if (!map_ && !sync_) return;
    std::string path = dir + "/ceiling.segment";
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd_ < 0) fail(path.c_str());
    // Blocks that were written before, as a broker's recycled segments are.
    std::string zeros(1 << 20, '\0');
    for (size_t at = 0; at < kSegment; at += zeros.size()) {
      if (::pwrite(fd_, zeros.data(), zeros.size(), static_cast<off_t>(at)) < 0) fail("pwrite");
    }
    ::fdatasync(fd_);
    if (!map_) return;
    void* mapped = ::mmap(nullptr, kSegment, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    base_ = static_cast<char*>(mapped);
  }
  bool sync() const { return sync_; }
  void keep(std::string_view message) {
    if (map_) {
      if (at_ + message.size() > kSegment) at_ = 0;
      std::memcpy(base_ + at_, message.data(), message.size());
      at_ += message.size();
    } else if (sync_) {
      batch_.append(message);
    }
  }
  void end_round() {
    if (batch_.empty()) return;
    if (at_ + batch_.size() > kSegment) at_ = 0;
    if (::pwrite(fd_, batch_.data(), batch_.size(), static_cast<off_t>(at_)) < 0) fail("pwrite");
    if (::fdatasync(fd_) != 0) fail("fdatasync");
    at_ += batch_.size();
    batch_.clear();
  }

 private:
  bool map_, sync_;
  int fd_ = -1;
  char* base_ = nullptr;
  size_t at_ = 0;
  std::string batch_;
};

struct Peer;
/// Who consumes from a queue, in turn.
struct Route {
  std::string name;
  std::vector<Peer*> consumers;
  size_t next = 0;
};

struct Peer {
  int fd = -1;
  std::vector<char> in = std::vector<char>(kInput);
  size_t begin = 0, end = 0;
  std::string out;
  size_t sent = 0;
  bool greeted = false, confirms = false, dirty = false;
  uint64_t published = 0, confirmed = 0, tag = 0;
  std::string deliver;  // basic.deliver for its consumer, the tag to be patched at tag_at
  size_t tag_at = 0;
};

class Echo {
 public:
  Echo(uint16_t port, std::string_view kind, const std::string& dir) : keeper_(kind, dir) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
    if (::listen(listener_, 128) != 0) fail("listen");
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    watch(listener_, nullptr, EPOLLIN, EPOLL_CTL_ADD);
    std::printf("ceiling is ready on port %u\n", port);
    std::fflush(stdout);
  }
  [[noreturn]] void run() {
    epoll_event events[64];
    for (;;) {
      int n = ::epoll_wait(epoll_, events, 64, -1);
      for (int i = 0; i < n; ++i) {
        auto* peer = static_cast<Peer*>(events[i].data.ptr);
        if (!peer)
          accept();
        else if (events[i].events & EPOLLOUT)
          touch(*peer);
      }
      for (int i = 0; i < n; ++i) {
        auto* peer = static_cast<Peer*>(events[i].data.ptr);
        if (peer && (events[i].events & ~EPOLLOUT)) read(*peer);
      }
      keeper_.end_round();
      for (size_t i = 0; i < touched_.size(); ++i) send(*touched_[i]);
      touched_.clear();
      for (Peer* peer : gone_) drop(*peer);
      gone_.clear();
    }
  }

 private:
  void watch(int fd, Peer* peer, uint32_t what, int how) {
    epoll_event event{};
    event.events = what;
    event.data.ptr = peer;
    ::epoll_ctl(epoll_, how, fd, &event);
  }
  void accept() {
    int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    auto peer = std::make_unique<Peer>();
    peer->fd = fd;
    watch(fd, peer.get(), EPOLLIN, EPOLL_CTL_ADD);
    peers_.emplace(peer.get(), std::move(peer));
  }
  void touch(Peer& peer) {
    if (!peer.dirty) touched_.push_back(&peer);
    peer.dirty = true;
  }
  void drop(Peer& peer) {
    for (auto& [name, route] : routes_) {
      std::erase(route->consumers, &peer);
      route->next = 0;
    }
    last_ = nullptr;
    ::close(peer.fd);
    peers_.erase(&peer);
  }
  void read(Peer& peer) {
    for (int i = 0; i < kReceives; ++i) {
      if (peer.begin == peer.end) peer.begin = peer.end = 0;
      if (kInput - peer.end < kInput / 4) {
        std::memmove(peer.in.data(), peer.in.data() + peer.begin, peer.end - peer.begin);
        peer.end -= peer.begin;
        peer.begin = 0;
      }
      size_t room = kInput - peer.end;
      ssize_t got = ::recv(peer.fd, peer.in.data() + peer.end, room, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        gone_.push_back(&peer);
        return;
      }
      if (got < 0) return;
      peer.end += static_cast<size_t>(got);
      parse(peer);
      if (static_cast<size_t>(got) < room) return;
    }
  }
  void parse(Peer& peer) {
    if (!peer.greeted) {
      if (peer.end - peer.begin < 8) return;
      peer.begin += 8;
      peer.greeted = true;
      std::string start("\0\x09\0\0\0\0\0\0\0\5PLAIN\0\0\0\5en_US", 24);
      method(peer, 0, 10, 10, start);
    }
    for (;;) {
      const char* at = peer.in.data() + peer.begin;
      size_t left = peer.end - peer.begin;
      if (left < kOver) break;
      size_t whole = get32(at + 3) + kOver;
      if (left < whole) break;
      if (at[0] == 1 && get32(at + kHead) == (60u << 16 | 40)) {
        whole = publish(peer, at, left, whole);
        if (whole == 0) break;
      } else if (at[0] == 1) {
        answer(peer, get16(at + 1), get32(at + kHead), {at + kHead + 4, whole - kOver - 4});
      }
      peer.begin += whole;
    }
    if (peer.confirms && peer.published != peer.confirmed) {
      char ack[9] = {};
      put64(ack, peer.confirmed = peer.published);
      ack[8] = 1;
      method(peer, 1, 60, 80, {ack, sizeof ack});
    }
  }
  /// Bytes of the whole message, 0 while it is not whole.
  size_t publish(Peer& peer, const char* at, size_t left, size_t method_bytes) {
    size_t size = method_bytes;
    if (left < size + kHead + 12 + kOver) return 0;
    uint64_t body = get64(at + size + kHead + 4);
    size += get32(at + size + 3) + kOver;
    for (uint64_t had = 0; had < body;) {
      if (left < size + kHead) return 0;
      uint32_t part = get32(at + size + 3);
      had += part;
      size += part + kOver;
    }
    if (left < size) return 0;
    ++peer.published;
    keeper_.keep({at, size});
    size_t exchange = static_cast<uint8_t>(at[kHead + 6]);
    const char* key = at + kHead + 7 + exchange;
    deliver({key + 1, static_cast<uint8_t>(*key)}, {at + method_bytes, size - method_bytes});
    return size;
  }
  void deliver(std::string_view queue, std::string_view content) {
    if (!last_ || last_->name != queue) {
      auto& route = routes_[std::string(queue)];
      if (!route)
        route = std::make_unique<Route>(Route{.name = std::string(queue), .consumers = {}});
      last_ = route.get();
    }
    if (last_->consumers.empty()) return;
    Peer& to = *last_->consumers[last_->next];
    if (++last_->next == last_->consumers.size()) last_->next = 0;
    size_t at = to.out.size();
    to.out.append(to.deliver).append(content);
    put64(to.out.data() + at + to.tag_at, ++to.tag);
    touch(to);
  }
  void answer(Peer& peer, uint16_t channel, uint32_t key, std::string_view args) {
    auto is = [&](uint32_t c, uint32_t m) { return key == (c << 16 | m); };
    if (is(10, 11)) method(peer, 0, 10, 30, {"\x07\xFF\0\2\0\0\0\0", 8});
    if (is(10, 40)) method(peer, 0, 10, 41, {"\0", 1});
    if (is(10, 50)) method(peer, 0, 10, 51, {});
    if (is(20, 10)) method(peer, channel, 20, 11, {"\0\0\0\0", 4});
    if (is(20, 40)) method(peer, channel, 20, 41, {});
    if (is(50, 10))
      method(peer, channel, 50, 11,
             std::string(args.substr(2, static_cast<uint8_t>(args[2]) + 1)) + std::string(8, '\0'));
    if (is(50, 20)) method(peer, channel, 50, 21, {});
    if (is(50, 40)) method(peer, channel, 50, 41, {"\0\0\0\0", 4});
    if (is(40, 10)) method(peer, channel, 40, 11, {});
    if (is(40, 20)) method(peer, channel, 40, 21, {});
    if (is(60, 10)) method(peer, channel, 60, 11, {});
    if (is(60, 20)) consume(peer, channel, args);
    if (is(85, 10)) {
      peer.confirms = true;
      method(peer, channel, 85, 11, {});
    }
  }
  void consume(Peer& peer, uint16_t channel, std::string_view args) {
    std::string queue(args.substr(3, static_cast<uint8_t>(args[2])));
    method(peer, channel, 60, 21, {"\1c", 2});
    std::string body("\0\x3C\0\x3C\1c", 6);
    body += std::string(9, '\0');  // the tag, and not redelivered
    body += '\0';                  // default exchange
    body += static_cast<char>(queue.size()) + queue;
    peer.tag_at = kHead + 6;
    peer.deliver = framed(1, body);
    auto& route = routes_[queue];
    if (!route) route = std::make_unique<Route>(Route{.name = queue, .consumers = {}});
    route->consumers.push_back(&peer);
  }
  static std::string framed(uint16_t channel, std::string_view payload) {
    std::string frame("\1", 1);
    frame += static_cast<char>(channel >> 8);
    frame += static_cast<char>(channel);
    char size[4];
    put32(size, static_cast<uint32_t>(payload.size()));
    return frame.append(size, 4).append(payload) + '\xCE';
  }
  void method(Peer& peer, uint16_t channel, uint16_t c, uint16_t m, std::string_view args) {
    std::string payload{static_cast<char>(c >> 8), static_cast<char>(c), static_cast<char>(m >> 8),
                        static_cast<char>(m)};
    peer.out += framed(channel, payload.append(args));
    touch(peer);
  }
  void send(Peer& peer) {
    peer.dirty = false;
    while (peer.sent < peer.out.size()) {
      ssize_t n =
          ::send(peer.fd, peer.out.data() + peer.sent, peer.out.size() - peer.sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return peer.out.clear();
      if (n < 0 && peer.out.size() - peer.sent <= kOutputMark) break;
      // All wait while someone has this much to take: the only back-pressure there is.
      pollfd room{peer.fd, POLLOUT, 0};
      if (n < 0)
        ::poll(&room, 1, -1);
      else
        peer.sent += static_cast<size_t>(n);
    }
    bool all = peer.sent == peer.out.size();
    if (all) {
      peer.out.clear();
      peer.sent = 0;
    } else if (peer.sent > kOutputMark) {
      peer.out.erase(0, peer.sent);
      peer.sent = 0;
    }
    watch(peer.fd, &peer, EPOLLIN | (all ? 0u : EPOLLOUT), EPOLL_CTL_MOD);
  }

  Keeper keeper_;
  int listener_ = -1, epoll_ = -1;
  std::unordered_map<Peer*, std::unique_ptr<Peer>> peers_;
  std::unordered_map<std::string, std::unique_ptr<Route>> routes_;
  Route* last_ = nullptr;
  std::vector<Peer*> touched_, gone_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ceiling PORT [none|map|sync DIR]\n");
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  std::string_view kind = argc > 2 ? argv[2] : "none";
  Echo(static_cast<uint16_t>(std::atoi(argv[1])), kind, argc > 3 ? argv[3] : ".").run();
}
