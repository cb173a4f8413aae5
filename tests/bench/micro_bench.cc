// Parts of the hot path on their own: codec, routing, log, due index, timer wheel. Google
// Benchmark; see --help.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/store_impl.h"
#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/runtime/timer_wheel.h"
#include "tarrymq/storage/due_index.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store_shard.h"

namespace {

using namespace tarry;
using benchmark::State;

struct Bytes {
  std::byte* append(size_t size) {
    size_t at = bytes.size();
    bytes.resize(at + size);
    return bytes.data() + at;
  }
  std::vector<std::byte> bytes;
};

/// A publish of 16 bytes as it comes from the socket.
std::vector<std::byte> publish_frames() {
  Bytes out;
  append_method(out, 1, method::BasicPublish{.exchange = "", .routing_key = "work"});
  PropertiesBuilder properties;
  properties.delivery_mode = 2;
  std::string header = properties.build(16);
  append_content(out, 1, as_bytes(header), as_bytes(std::string_view("a 16-byte body..")), 131072);
  return out.bytes;
}

void decode_publish(State& state) {
  auto frames = publish_frames();
  for (auto _ : state) {
    ByteSpan rest(frames);
    auto method = decode_frame(rest, 131072);
    PublishFields fields;
    benchmark::DoNotOptimize(parse_publish(method.payload, fields));
    rest = rest.subspan(method.total_bytes);
    auto header = decode_frame(rest, 131072);
    PropertiesView view;
    std::string error;
    benchmark::DoNotOptimize(PropertiesView::parse_into(header.payload, view, error));
    auto body = decode_frame(rest.subspan(header.total_bytes), 131072);
    benchmark::DoNotOptimize(body.payload);
  }
}
BENCHMARK(decode_publish);

void encode_delivery(State& state) {
  DeliverTemplate frames(1, "consumer");
  std::string header = PropertiesBuilder{}.build(16),
              body(static_cast<size_t>(state.range(0)), 'x');
  const ByteSpan route = as_bytes(std::string_view("\0\4work", 6));
  Bytes out;
  uint64_t tag = 0;
  for (auto _ : state) {
    out.bytes.clear();
    frames.append(out, ++tag, false, route, as_bytes(header), as_bytes(body), 131072);
    benchmark::DoNotOptimize(out.bytes.data());
  }
}
BENCHMARK(encode_delivery)->Arg(16)->Arg(1024)->Arg(65536);

void route(State& state, const char* type, const char* pattern, const char* key) {
  ExchangeSpec spec;
  spec.name = "bench";
  spec.type = exchange_type_of(type).value();
  auto exchange = Exchange::create(std::move(spec));
  const auto bindings = static_cast<uint64_t>(state.range(0));
  for (uint64_t i = 1; i <= bindings; ++i) {
    std::string number = std::to_string(i), bound(pattern);
    bound.replace(bound.find('@'), 1, number);
    if (!(*exchange)->bind(Destination::to_queue(QueueId(i), "q" + number), bound, {}))
      std::abort();
  }
  RouteMatches out;
  for (auto _ : state) {
    out.clear();
    (*exchange)->match(key, {}, out);
    benchmark::DoNotOptimize(out.queues.data());
  }
}
BENCHMARK_CAPTURE(route, direct, "direct", "key.@", "key.7")->Arg(10)->Arg(10'000);
BENCHMARK_CAPTURE(route, topic, "topic", "a.@.#", "a.7.b.c")->Arg(10)->Arg(10'000);
BENCHMARK_CAPTURE(route, topic_stars, "topic", "*.@.*", "a.7.b")->Arg(10)->Arg(10'000);

/// A store in a directory of its own with one log.
struct LogWorld {
  explicit LogWorld(bool durable) : dir(make_directory()), shard(ShardId(0), clock) {
    StoreOptions options;
    options.data_dir = dir;
    options.disk_free_min_bytes = 0;
    auto opened = Store::open(options, posix_file_system());
    if (!opened) std::abort();
    store = std::move(*opened);
    store_shard = std::make_unique<StoreShard>(*store, shard);
    MessageLog::Options log_options;
    log_options.directory = store->queue_directory(QueueId(1)) + "/0";
    log_options.durable = durable;
    log_options.label = "bench";
    auto made = MessageLog::open(*store_shard, log_options);
    if (!made) std::abort();
    log = std::move(*made);
  }
  ~LogWorld() {
    log.reset();
    store_shard.reset();
    store.reset();
    std::filesystem::remove_all(dir);
  }
  static std::string make_directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-bench-XXXXXX").string();
    return ::mkdtemp(pattern.data());
  }
  void append(ByteSpan body) {
    RecordParts parts;
    parts.published_ms = 1000;
    parts.persistent = true;
    parts.route = as_bytes(std::string_view("\0\4work", 6));
    parts.header = as_bytes(std::string_view("0123456789abcdef"));
    parts.body = body;
    if (!log->append(parts)) std::abort();
  }
  void turn() { shard.run_turn_for_test(); }

  const std::string dir;
  SystemClock clock;
  std::unique_ptr<Store> store;
  Shard shard;
  std::unique_ptr<StoreShard> store_shard;
  std::unique_ptr<MessageLog> log;
};

constexpr int kBurst = 700;

/// Append, read and acknowledge in bursts, as a queue whose consumer keeps up; time of all of it.
void log_burst(State& state) {
  LogWorld world(state.range(1) != 0);
  std::string body(static_cast<size_t>(state.range(0)), 'x');
  Fetched fetched;
  for (auto _ : state) {
    for (int i = 0; i < kBurst; ++i) world.append(as_bytes(body));
    Run run;
    for (int i = 0; i < kBurst && world.log->peek(fetched) == Fetch::ok; ++i) {
      world.log->take();
      if (run.count > 0 && fetched.position.segment != run.first.segment) {
        world.log->settle(run);
        run.count = 0;
      }
      if (run.count++ == 0) run.first = fetched.position;
    }
    world.log->settle(run);
    world.turn();
  }
  state.SetItemsProcessed(state.iterations() * kBurst);
}
BENCHMARK(log_burst)->ArgNames({"bytes", "durable"})->Args({16, 0})->Args({16, 1})->Args({1024, 1});

/// Settling one by one in the worst order: from the back.
void log_ack_backwards(State& state) {
  LogWorld world(true);
  Fetched fetched;
  std::vector<Position> out;
  for (auto _ : state) {
    state.PauseTiming();
    for (int i = 0; i < kBurst; ++i) world.append({});
    out.clear();
    while (world.log->fresh_count() > 0 && world.log->peek(fetched) == Fetch::ok) {
      world.log->take();
      out.push_back(fetched.position);
    }
    state.ResumeTiming();
    for (auto it = out.rbegin(); it != out.rend(); ++it) world.log->settle({*it, 1});
    state.PauseTiming();
    world.turn();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kBurst);
}
BENCHMARK(log_ack_backwards);

/// Parked with one delay, or with delays all over (jitter), and taken when due.
void due_index(State& state) {
  LogWorld world(true);
  auto index = DueIndex::create(world.store->due(), world.shard, QueueId(1), 0);
  uint64_t now_ms = 1'000'000, random = 1;
  std::vector<DueEntry> taken(static_cast<size_t>(kBurst));
  for (auto _ : state) {
    for (uint32_t i = 0; i < kBurst; ++i) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      const uint32_t delay_ms =
          state.range(0) != 0 ? 50 + static_cast<uint32_t>(random >> 33) % 100 : 100;
      DueEntry entry;
      entry.due_ms = now_ms + delay_ms;
      entry.delay_ms = delay_ms;
      entry.position = {1, i, i};
      index->add(entry);
    }
    ++now_ms;
    benchmark::DoNotOptimize(index->take_due(now_ms, taken));
  }
  state.SetItemsProcessed(state.iterations() * kBurst);
}
BENCHMARK(due_index)->ArgName("jitter")->Arg(0)->Arg(1);

void timer_wheel(State& state) {
  SteadyTime now{};
  TimerWheel wheel(now);
  uint64_t fired = 0;
  std::vector<std::unique_ptr<Timer>> timers;
  for (int64_t i = 0; i < state.range(0); ++i) {
    timers.push_back(std::make_unique<Timer>([&fired] { ++fired; }));
    wheel.schedule(*timers.back(), now.plus_ms(1 + i % 10'000));
  }
  size_t next = 0;
  for (auto _ : state) {
    now = now.plus_ms(1);
    wheel.advance(now);
    wheel.schedule(*timers[next], now.plus_ms(5'000));
    next = (next + 1) % timers.size();
  }
  benchmark::DoNotOptimize(fired);
}
BENCHMARK(timer_wheel)->Arg(100)->Arg(100'000);

}  // namespace

BENCHMARK_MAIN();
