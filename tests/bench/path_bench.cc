// The path of a message from a publisher's bytes to a consumer's bytes, through session, routing,
// queue and log, on one thread, without sockets and on a disk in memory: always the same work, so
// that its instructions can be counted (tests/bench/instructions).
//   path_bench transient|durable|hop|varied MESSAGES
//     transient  16 bytes, no confirms, automatic ack
//     durable    persistent, one multiple ack for 100
//     hop        transient, the publisher on another shard than the queue and its consumer
//     varied     transient, each message with a message id of its own
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "perf/wire.h"
#include "sim/sim_disk.h"
#include "storage/store_impl.h"
#include "support/faulty_file_system.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/runtime/as_shard.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"

namespace {

using namespace tarry;
using perf::Encoder;
using perf::method_frame;

constexpr uint64_t kBatch = 700;  // what one read of 64 KiB brings
constexpr uint32_t kAckEvery = 100;
constexpr size_t kDeliverTagAt = 13;  // behind frame head, class, method and the consumer tag "c"

std::string publish_with_id(uint64_t id) {
  constexpr std::string_view kBody = "a 16-byte body..";
  constexpr uint16_t kChannel = 1, kMessageIdFlag = 1 << 7;
  Encoder publish, header;
  publish.u16(0).short_string("").short_string("path").u8(0);
  header.u16(60).u16(0).u64(kBody.size()).u16(kMessageIdFlag).short_string(std::to_string(id));
  return method_frame(kChannel, 60, 40, publish.bytes) +
         perf::frame(perf::kHeaderFrame, kChannel, header.bytes) +
         perf::frame(perf::kBodyFrame, kChannel, kBody);
}

/// A connection without a socket: what is written arrives in the next turn, what the broker sends
/// is taken at once.
class Wire final : public OutboundPort, public TurnHook {
 public:
  Wire(Broker& broker, Shard& shard, const SessionSettings& settings) : shard_(shard) {
    Connection::Peer peer{"127.0.0.1", 40000, 5672, true, nullptr};
    connection_ = Connection::create(broker.queue_shard(shard.id().value), broker.access(),
                                     settings, peer, *this, &broker.connections());
  }
  void offer(ByteSpan bytes) {
    if (connection_->on_bytes(bytes) != bytes.size()) std::abort();
    request_flush();
  }
  Shard& shard() { return shard_; }
  OutboundBuffer& outbound() override { return outbound_; }
  void request_flush() override { shard_.at_turn_end(TurnStage::connections, *this); }
  void set_reading(bool) override {}
  void close_after_flush() override { std::abort(); }
  void abort() override { std::abort(); }
  void on_turn_end() override {
    ByteSpan bytes = outbound_.unsent();
    if (bytes.empty()) return;
    if (counting) count(bytes);
    outbound_.consume(bytes.size());
    connection_->on_sent();
  }
  /// Steps over the frames as a client would, and counts deliveries.
  void count(ByteSpan bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const char* frame = reinterpret_cast<const char*>(bytes.data() + at);
      if (frame[0] == perf::kMethodFrame &&
          perf::load32(frame + perf::kFrameHead) == perf::kBasicDeliver) {
        ++delivered;
        tag = perf::load64(frame + kDeliverTagAt);
      }
      at += perf::load32(frame + 3) + perf::kFrameOverhead;
    }
  }
  bool counting = false;
  uint64_t delivered = 0, tag = 0;

 private:
  Shard& shard_;
  OutboundBuffer outbound_;
  std::unique_ptr<Connection> connection_;
};

struct Path {
  explicit Path(std::string_view kind)
      : durable(kind == "durable"),
        hop(kind == "hop"),
        shard(ShardId(0), clock),
        other(ShardId(1), clock) {
    StoreOptions options;
    options.data_dir = "/d";
    auto opened = open_manual_store(options, files);
    if (!opened) std::abort();
    store = std::move(*opened);
    auto run = [impl = &store->impl()](Task task) { impl->store_thread.run(std::move(task)); };
    store->impl().definitions = std::make_unique<sim::SimDefinitionStore>(disk, run);
    store->impl().due = make_due_store(std::make_unique<sim::SimDueTable>(), run);
    BrokerOptions broker_options;
    broker_options.shards_share_thread = true;
    broker_options.stop_timeout_ms = 0;
    std::vector<Shard*> shards{&shard};
    if (hop) shards.push_back(&other);
    auto made = Broker::open(broker_options, *store, clock, shards);
    if (!made) std::abort();
    broker = std::move(*made);
    if (!broker->start()) std::abort();
    settings.handshake_timeout_ms = 0x7fffffff;
    Shard& to = hop ? other : shard;  // with two shards, the first queue lives on the second one
    run_as_shard(shard, [&] { publisher = std::make_unique<Wire>(*broker, shard, settings); });
    run_as_shard(to, [&] { consumer = std::make_unique<Wire>(*broker, to, settings); });
    log_in(*publisher);
    log_in(*consumer);
    Encoder declare;
    declare.u16(0).short_string("path").u8(durable ? 2 : 0).raw(perf::encode_table({}));
    tell(*publisher, method_frame(1, 50, 10, declare.bytes));
    Encoder consume;
    consume.u16(0)
        .short_string("path")
        .short_string("c")
        .u8(durable ? 0 : 2)
        .raw(perf::encode_table({}));
    tell(*consumer, method_frame(1, 60, 20, consume.bytes));
    consumer->counting = true;
    const auto message = perf::encode_publish("", "path", durable, "a 16-byte body..", 131072);
    for (uint64_t i = 0; i < kBatch; ++i)
      batch += kind == "varied" ? publish_with_id(i) : message.bytes;
  }
  ~Path() {
    run_as_shard(shard, [&] { publisher.reset(); });
    run_as_shard(consumer->shard(), [&] { consumer.reset(); });
    broker.reset();
  }
  void log_in(Wire& wire) {
    tell(wire, std::string("AMQP\0\0\x09\x01", 8));
    Encoder start_ok;
    start_ok.raw(perf::encode_table({}))
        .short_string("PLAIN")
        .long_string(std::string("\0guest\0guest", 12))
        .short_string("en_US");
    tell(wire, method_frame(0, 10, 11, start_ok.bytes));
    tell(wire, method_frame(0, 10, 31, Encoder().u16(2047).u32(131072).u16(0).bytes));
    tell(wire, method_frame(0, 10, 40, Encoder().short_string("/").short_string("").u8(0).bytes));
    tell(wire, method_frame(1, 20, 10, Encoder().short_string("").bytes));
  }
  /// Bytes for the broker, then turns until all is quiet.
  void tell(Wire& wire, std::string_view bytes) {
    run_as_shard(wire.shard(), [&] { wire.offer(as_bytes(bytes)); });
    constexpr int kTurns = 20;
    for (int i = 0; i < kTurns; ++i) pump();
  }
  void pump() {
    shard.run_turn_for_test();
    other.run_turn_for_test();
    store->impl().barrier->run_round(true);
    store->impl().store_thread.run_queued();
  }
  void acknowledge() {
    std::string acks;
    for (; acked + kAckEvery <= consumer->tag; acked += kAckEvery) {
      acks += method_frame(1, 60, 80, Encoder().u64(acked + kAckEvery).u8(1).bytes);
    }
    if (!acks.empty()) run_as_shard(consumer->shard(), [&] { consumer->offer(as_bytes(acks)); });
  }

  const bool durable, hop;
  ManualClock clock;
  FaultyFileSystem files;
  sim::DefinitionDisk disk;
  std::unique_ptr<Store> store;
  Shard shard, other;
  SessionSettings settings;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Wire> publisher, consumer;
  std::string batch;
  uint64_t acked = 0;
};

}  // namespace

/// What the instruction count counts. Not inlined, and with a name of its own for callgrind.
extern "C" [[gnu::noinline]] void tarry_measured_path(void* path, uint64_t messages) {
  auto& p = *static_cast<Path*>(path);
  for (uint64_t sent = 0; sent < messages; sent += kBatch) {
    run_as_shard(p.shard, [&p] { p.publisher->offer(as_bytes(p.batch)); });
    p.shard.run_turn_for_test();
    if (p.hop) {
      p.other.run_turn_for_test();
      p.shard.run_turn_for_test();  // hears that they were taken
    }
    if (p.durable) p.acknowledge();
  }
}

int main(int argc, char** argv) {
  std::string kind = argc > 1 ? argv[1] : "";
  const auto kinds = {"transient", "durable", "hop", "varied"};
  if (argc != 3 || std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    std::fprintf(stderr, "usage: path_bench transient|durable|hop|varied MESSAGES\n");
    return 2;
  }
  uint64_t messages = (std::strtoull(argv[2], nullptr, 10) + kBatch - 1) / kBatch * kBatch;
  Path path(kind);
  tarry_measured_path(&path, kBatch * 20);  // buffers have their size, what is looked up is known
  constexpr int kQuiet = 20;
  for (int i = 0; i < kQuiet; ++i) path.pump();
  uint64_t before = path.consumer->delivered;
  auto start = std::chrono::steady_clock::now();
  tarry_measured_path(&path, messages);
  double ns =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  for (int i = 0; i < kQuiet; ++i) path.pump();
  uint64_t delivered = path.consumer->delivered - before;
  std::printf("{\"kind\":\"%s\",\"messages\":%llu,\"delivered\":%llu,\"ns_per_message\":%.1f}\n",
              kind.c_str(), static_cast<unsigned long long>(messages),
              static_cast<unsigned long long>(delivered), ns / static_cast<double>(messages));
  return delivered == messages ? 0 : 1;
}
