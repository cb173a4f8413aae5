// Moves what waits in another broker's (or this one's) wait queues into a queue with retries:
// `tarrymqctl migrate_waiting`.
#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kMigrateGroup = "Retries";
// In flight to the broker: few enough that one request stays small, many enough that its barrier is
// shared.
constexpr int kBatchMessages = 200;
constexpr size_t kBatchBytes = 4 << 20;
constexpr int64_t kUnknown = -1;

struct MigrateOptions {
  std::string into, from = "amqp://guest:guest@127.0.0.1:5672/%2F", counter_header, main_queue;
  std::vector<std::string> wait_queues;
  int64_t ttl_ms = kUnknown;
  int64_t counter_base = 0;
  uint64_t limit = 0;
  bool dry_run = false;
};

int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string_view text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

std::string base64(std::string_view bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out.push_back(i + k > bytes.size() ? '=' : kLetters[word >> (18 - 6 * k) & 63]);
  }
  return out;
}

const amqp_field_value_t* find(const amqp_table_t& table, std::string_view name) {
  for (int i = 0; i < table.num_entries; ++i) {
    if (text_of(table.entries[i].key) == name) return &table.entries[i].value;
  }
  return nullptr;
}

std::optional<int64_t> number_of(const amqp_field_value_t* value) {
  if (value == nullptr) return std::nullopt;
  switch (value->kind) {
    case AMQP_FIELD_KIND_I8:
      return value->value.i8;
    case AMQP_FIELD_KIND_U8:
      return value->value.u8;
    case AMQP_FIELD_KIND_I16:
      return value->value.i16;
    case AMQP_FIELD_KIND_U16:
      return value->value.u16;
    case AMQP_FIELD_KIND_I32:
      return value->value.i32;
    case AMQP_FIELD_KIND_U32:
      return value->value.u32;
    case AMQP_FIELD_KIND_I64:
      return value->value.i64;
    case AMQP_FIELD_KIND_U64:
      return static_cast<int64_t>(value->value.u64);
    case AMQP_FIELD_KIND_TIMESTAMP:
      return static_cast<int64_t>(value->value.u64);
    case AMQP_FIELD_KIND_UTF8: {
      const std::string text(text_of(value->value.bytes));
      if (text.empty() || text.size() > 18 ||
          text.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
      return std::stoll(text);
    }
    default:
      return std::nullopt;
  }
}

std::string text_in(const amqp_table_t& table, std::string_view name) {
  const amqp_field_value_t* value = find(table, name);
  return value != nullptr && value->kind == AMQP_FIELD_KIND_UTF8
             ? std::string(text_of(value->value.bytes))
             : std::string();
}

/// One entry of x-death.
struct Hop {
  std::string queue, reason, exchange, routing_key;
  int64_t count = 0, time_s = 0;
};

std::vector<Hop> hops_of(const amqp_table_t& headers) {
  std::vector<Hop> hops;
  const amqp_field_value_t* history = find(headers, "x-death");
  if (history == nullptr || history->kind != AMQP_FIELD_KIND_ARRAY) return hops;
  const amqp_array_t& entries = history->value.array;
  for (int i = 0; i < entries.num_entries; ++i) {
    if (entries.entries[i].kind != AMQP_FIELD_KIND_TABLE) continue;
    const amqp_table_t& entry = entries.entries[i].value.table;
    Hop hop{text_in(entry, "queue"),
            text_in(entry, "reason"),
            text_in(entry, "exchange"),
            "",
            number_of(find(entry, "count")).value_or(0),
            number_of(find(entry, "time")).value_or(0)};
    const amqp_field_value_t* keys = find(entry, "routing-keys");
    if (keys != nullptr && keys->kind == AMQP_FIELD_KIND_ARRAY &&
        keys->value.array.num_entries > 0 &&
        keys->value.array.entries[0].kind == AMQP_FIELD_KIND_UTF8) {
      hop.routing_key = text_of(keys->value.array.entries[0].value.bytes);
    }
    hops.push_back(std::move(hop));
  }
  return hops;
}

/// The delay that a wait queue's name ends with, as `.1000ms`, `-30s`, `.5m` or plain `.5000`;
/// kUnknown if it has none.
int64_t delay_in_name(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && std::isalpha(static_cast<unsigned char>(name[end - 1]))) --end;
  const std::string unit = name.substr(end);
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(name[begin - 1]))) --begin;
  if (begin == end || end - begin > 12) return kUnknown;
  const int64_t number = std::stoll(name.substr(begin, end - begin));
  if (unit.empty() || unit == "ms") return number;
  if (unit == "s") return number * 1000;
  if (unit == "m" || unit == "min") return number * 60'000;
  if (unit == "h") return number * 3'600'000;
  return kUnknown;
}

struct DestroyConnection {
  void operator()(amqp_connection_state_t connection) const { amqp_destroy_connection(connection); }
};
struct DestroyMessage {
  void operator()(amqp_message_t* message) const { amqp_destroy_message(message); }
};

/// A connection to where the wait queues are, with channel 1.
class Source {
 public:
  explicit Source(std::string uri) : uri_(std::move(uri)), owned_(amqp_new_connection()) {
    std::string text = uri_;
    amqp_connection_info info;
    amqp_default_connection_info(&info);
    if (amqp_parse_url(text.data(), &info) != AMQP_STATUS_OK || info.ssl != 0) {
      throw Failure{kExitUsage,
                    "--from: '" + uri_ + "' is not like amqp://user:password@host:5672/vhost"};
    }
    amqp_socket_t* socket = amqp_tcp_socket_new(connection_);
    if (socket == nullptr || amqp_socket_open(socket, info.host, info.port) != AMQP_STATUS_OK) {
      throw Failure{kExitUnreachable, "--from: nobody answers at " + std::string(info.host) + ":" +
                                          std::to_string(info.port)};
    }
    check(amqp_login(connection_, info.vhost, 0, 131072, 30, AMQP_SASL_METHOD_PLAIN, info.user,
                     info.password),
          "log-in");
    amqp_channel_open(connection_, 1);
    check(amqp_get_rpc_reply(connection_), "channel");
  }
  ~Source() {
    // What is not acknowledged goes back to its queue.
    amqp_connection_close(connection_, AMQP_REPLY_SUCCESS);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  uint32_t count(const std::string& queue) {
    amqp_queue_declare_ok_t* ok =
        amqp_queue_declare(connection_, 1, bytes_of(queue), 1, 0, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(connection_), "queue '" + queue + "'");
    return ok->message_count;
  }
  /// The next message of the queue, unacknowledged; false if there is none.
  bool get(const std::string& queue, uint64_t& tag, std::string& exchange, std::string& key,
           amqp_message_t& message) {
    const amqp_rpc_reply_t reply = amqp_basic_get(connection_, 1, bytes_of(queue), 0);
    check(reply, "queue '" + queue + "'");
    if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return false;
    const auto* ok = static_cast<const amqp_basic_get_ok_t*>(reply.reply.decoded);
    tag = ok->delivery_tag;
    exchange = text_of(ok->exchange);
    key = text_of(ok->routing_key);
    check(amqp_read_message(connection_, 1, &message, 0), "queue '" + queue + "'");
    return true;
  }
  void acknowledge_up_to(uint64_t tag) {
    if (amqp_basic_ack(connection_, 1, tag, 1) != AMQP_STATUS_OK) {
      throw Failure{kExitUnreachable,
                    "--from: the connection is gone; messages that were not acknowledged there may "
                    "be here, too"};
    }
  }
  void release() { amqp_maybe_release_buffers(connection_); }

 private:
  static amqp_bytes_t bytes_of(const std::string& text) {
    return {text.size(), const_cast<char*>(text.data())};
  }
  void check(const amqp_rpc_reply_t& reply, const std::string& what) const {
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
      const auto* close = static_cast<const amqp_channel_close_t*>(reply.reply.decoded);
      throw Failure{close->reply_code == 404 ? kExitNotFound : kExitRefused,
                    "--from: " + what + ": " + std::string(text_of(close->reply_text))};
    }
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
      const auto* close = static_cast<const amqp_connection_close_t*>(reply.reply.decoded);
      throw Failure{close->reply_code == 403 ? kExitForbidden : kExitRefused,
                    "--from: " + what + ": " + std::string(text_of(close->reply_text))};
    }
    throw Failure{kExitUnreachable,
                  "--from: " + what + ": " + amqp_error_string2(reply.library_error)};
  }

  const std::string uri_;
  const std::unique_ptr<amqp_connection_state_t_, DestroyConnection> owned_;
  const amqp_connection_state_t connection_ = owned_.get();
};

/// What is left of the delay: full, unless the broker noted when the message came into the wait
/// queue. That is so if it was dead-lettered into it: then its newest x-death tells (in whole
/// seconds: rounded so that nothing comes early).
int64_t left_of(int64_t ttl_ms, const std::string& wait_queue, const std::vector<Hop>& hops) {
  if (hops.empty() || hops.front().queue == wait_queue || hops.front().time_s == 0) return ttl_ms;
  const int64_t waited_ms = wall_ms() - (hops.front().time_s * 1000 + 999);
  return std::clamp<int64_t>(ttl_ms - std::max<int64_t>(waited_ms, 0), 0, ttl_ms);
}

/// How many deliveries there were: by the library's own counter, or the rejections in the main
/// queue, or else the times it left a wait queue, and the delivery that brought it here now.
int64_t deliveries_of(const MigrateOptions& o, const amqp_table_t& headers,
                      const std::vector<Hop>& hops) {
  if (!o.counter_header.empty()) {
    if (auto counter = number_of(find(headers, o.counter_header)))
      return std::max<int64_t>(*counter - o.counter_base, 0);
  }
  int64_t rejected = 0, waited = 0;
  for (const Hop& hop : hops) {
    if (hop.queue == o.main_queue && hop.reason == "rejected") rejected += hop.count;
    const bool of_a_wait_queue =
        std::find(o.wait_queues.begin(), o.wait_queues.end(), hop.queue) != o.wait_queues.end();
    if (of_a_wait_queue && hop.reason == "expired") waited += hop.count;
  }
  return rejected > 0 ? rejected : waited + 1;
}

Json properties_of(const amqp_basic_properties_t& p) {
  Json out = Json::object();
  const auto text = [&](amqp_flags_t flag, const char* name, amqp_bytes_t value) {
    if (p._flags & flag) out[name] = text_of(value);
  };
  text(AMQP_BASIC_CONTENT_TYPE_FLAG, "content_type", p.content_type);
  text(AMQP_BASIC_CONTENT_ENCODING_FLAG, "content_encoding", p.content_encoding);
  text(AMQP_BASIC_CORRELATION_ID_FLAG, "correlation_id", p.correlation_id);
  text(AMQP_BASIC_REPLY_TO_FLAG, "reply_to", p.reply_to);
  text(AMQP_BASIC_MESSAGE_ID_FLAG, "message_id", p.message_id);
  text(AMQP_BASIC_TYPE_FLAG, "type", p.type);
  text(AMQP_BASIC_USER_ID_FLAG, "user_id", p.user_id);
  text(AMQP_BASIC_APP_ID_FLAG, "app_id", p.app_id);
  if (p._flags & AMQP_BASIC_DELIVERY_MODE_FLAG) out["delivery_mode"] = p.delivery_mode;
  if (p._flags & AMQP_BASIC_PRIORITY_FLAG) out["priority"] = p.priority;
  if (p._flags & AMQP_BASIC_TIMESTAMP_FLAG) out["timestamp"] = p.timestamp;
  return out;  // its expiration was the delay, or of the wait queue: it has done its work
}

std::string encoded_table(amqp_table_t table) {
  std::string out(4096, '\0');
  for (;;) {
    size_t offset = 0;
    if (amqp_encode_table({out.size(), out.data()}, &table, &offset) == AMQP_STATUS_OK) {
      out.resize(offset);
      return out;
    }
    if (out.size() > (64u << 20))
      throw Failure{kExitRefused, "--from: headers that cannot be written"};
    out.resize(out.size() * 2);
  }
}

Json given_message(const MigrateOptions& o, const std::string& wait_queue, int64_t queue_ttl_ms,
                   const std::string& exchange, const std::string& key,
                   const amqp_message_t& message) {
  const amqp_basic_properties_t& p = message.properties;
  const amqp_table_t headers = p._flags & AMQP_BASIC_HEADERS_FLAG ? p.headers : amqp_empty_table;
  const std::vector<Hop> hops = hops_of(headers);
  int64_t ttl_ms = queue_ttl_ms;
  if (p._flags & AMQP_BASIC_EXPIRATION_FLAG) {
    const std::string text(text_of(p.expiration));
    if (!text.empty() && text.size() < 18 &&
        text.find_first_not_of("0123456789") == std::string::npos) {
      ttl_ms = ttl_ms == kUnknown ? std::stoll(text) : std::min<int64_t>(ttl_ms, std::stoll(text));
    }
  }
  if (ttl_ms == kUnknown) {
    throw Failure{kExitUsage, "how long does a message wait in '" + wait_queue +
                                  "'? Neither its name nor the message tells: say --ttl"};
  }
  Json out{{"payload", base64({static_cast<const char*>(message.body.bytes), message.body.len})},
           {"payload_encoding", "base64"},
           {"properties", properties_of(p)},
           {"delay_ms", left_of(ttl_ms, wait_queue, hops)},
           {"delivery_count", deliveries_of(o, headers, hops)},
           {"exchange", exchange},
           {"routing_key", key}};
  // As it was when it first came into the main queue, if that is told.
  for (const Hop& hop : hops) {
    if (hop.queue != o.main_queue) continue;
    out["exchange"] = hop.exchange;
    out["routing_key"] = hop.routing_key;
  }
  if (headers.num_entries > 0) out["headers_table"] = base64(encoded_table(headers));
  return out;
}

struct Migrated {
  uint64_t moved = 0;
};

/// Those that are there now; whoever still publishes into it is not waited for.
void migrate_one(Session& session, const MigrateOptions& o, Source& source,
                 const std::string& wait_queue, Migrated& all) {
  const int64_t ttl_ms = o.ttl_ms != kUnknown ? o.ttl_ms : delay_in_name(wait_queue);
  const uint64_t there = source.count(wait_queue);
  uint64_t left = o.limit > 0 ? std::min(there, o.limit - all.moved) : there;
  if (o.dry_run) {
    std::cout << wait_queue << ": " << there << " wait\n";
    return;
  }
  const std::string parking = path("queues", session.vhost, o.into) + "/delayed";
  ProgressBar bar(wait_queue);
  const uint64_t total = left;
  for (bool empty = false; left > 0 && !empty;) {
    Json messages = Json::array();
    uint64_t last_tag = 0;
    size_t bytes = 0;
    while (left > 0 && messages.size() < kBatchMessages && bytes < kBatchBytes) {
      uint64_t tag = 0;
      std::string exchange, key;
      amqp_message_t message;
      if (!source.get(wait_queue, tag, exchange, key, message)) {
        empty = true;
        break;
      }
      last_tag = tag;
      const std::unique_ptr<amqp_message_t, DestroyMessage> its_memory(&message);
      bytes += message.body.len;
      messages.push_back(given_message(o, wait_queue, ttl_ms, exchange, key, message));
      source.release();
      --left;
    }
    if (messages.empty()) break;
    // First they are here, durably; only then they go there.
    session.client().send("POST", parking, Json{{"messages", messages}});
    source.acknowledge_up_to(last_tag);
    all.moved += messages.size();
    bar.show(total - left, total);
  }
}

void migrate(Session& session, MigrateOptions o) {
  if (o.main_queue.empty()) o.main_queue = o.into;
  const Json queue = session.client().get(path("queues", session.vhost, o.into));
  if (!queue.value("arguments", Json::object()).contains("x-delayed-retry-min")) {
    throw Failure{kExitRefused, "queue '" + o.into +
                                    "' has no retries: declare it with x-delayed-retry-min first"};
  }
  Source source(o.from);
  Migrated all;
  for (const std::string& wait_queue : o.wait_queues) {
    if (o.limit > 0 && all.moved >= o.limit) break;
    migrate_one(session, o, source, wait_queue, all);
  }
  if (!o.dry_run) print_object(Json{{"moved", all.moved}}, session.format());
}

}  // namespace

void add_migrate_commands(CLI::App& app, Session& session) {
  auto o = std::make_shared<MigrateOptions>();
  CLI::App* command = add_command(
      app, kMigrateGroup, "migrate_waiting",
      "Moves what waits in wait queues of any AMQP broker into the retries of a queue here",
      [=, &session] { migrate(session, *o); });
  command->add_option("queue", o->into, "The queue here; declared with x-delayed-retry-min")
      ->required();
  command
      ->add_option("--wait-queue", o->wait_queues,
                   "A queue there whose messages wait; may be said several times")
      ->required();
  command->add_option("--from", o->from, "Where they are: amqp://user:password@host:port/vhost")
      ->capture_default_str();
  command->add_option("--ttl", o->ttl_ms,
                      "How long a message waits there, in ms; else by its expiration or the "
                      "queue's name (retry.30s)");
  command->add_option("--main-queue", o->main_queue,
                      "The name there of the queue they come back to; else as here");
  command->add_option("--counter-header", o->counter_header,
                      "A header that counts; else x-death does");
  command->add_option("--counter-base", o->counter_base,
                      "What that header says before the first delivery has failed (0 or 1)");
  command->add_option("--limit", o->limit, "How many at most");
  command->add_flag("--dry-run", o->dry_run, "Only count");
}

}  // namespace ctl
