// Shows what a data directory holds, record by record if asked, also a damaged one. Changes
// nothing.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>

#include "storage/inspect.h"
#include "tarrymq/amqp/field_table.h"

namespace {

using namespace tarry;

struct Wanted {
  std::string data_dir;
  bool records = false, gone = false, definitions = false;
  size_t body_bytes = 60;
  std::string queue;
};

struct Totals {
  uint64_t segments = 0, fresh = 0, parked = 0, dying = 0, gone = 0, damage = 0;
};

/// Printable, the rest as \xNN.
std::string shown(ByteSpan bytes, size_t most) {
  std::string out;
  for (std::byte b : bytes.first(std::min(most, bytes.size()))) {
    const auto c = static_cast<unsigned char>(b);
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", c);
    if (c >= 0x20 && c < 0x7f && c != '\\')
      out.push_back(static_cast<char>(c));
    else
      out += hex;
  }
  return bytes.size() > most ? out + "..." : out;
}

/// "exchange" -> "key", from the record's two short strings.
std::string route_of(const RecordView& view) {
  if (view.route.empty()) return "?";
  const auto first = std::min<size_t>(static_cast<size_t>(view.route[0]), view.route.size() - 1);
  const ByteSpan exchange = view.route.subspan(1, first);
  const ByteSpan rest = view.route.subspan(1 + first);
  return "\"" + shown(exchange, 255) + "\" -> \"" +
         (rest.empty() ? "" : shown(rest.subspan(1), 255)) + "\"";
}

const char* word_of(InspectedRecord::State state) {
  switch (state) {
    case InspectedRecord::State::fresh:
      return "ready";
    case InspectedRecord::State::parked:
      return "delayed";
    case InspectedRecord::State::dying:
      return "dying";
    case InspectedRecord::State::gone:
      return "gone";
  }
  return "?";
}

void print_record(const InspectedRecord& r, const Wanted& wanted) {
  const RecordView view = decode_record(r.bytes.data(), r.head);
  std::printf("      %u at byte %u: %s, published %" PRIu64 ", %s, %zu bytes", r.ordinal, r.offset,
              word_of(r.state), view.published_ms, route_of(view).c_str(), view.body.size());
  if (r.counter) std::printf(", delivery count %u", r.counter);
  if (r.delivered) std::printf(", delivered before");
  if (r.state == InspectedRecord::State::parked) std::printf(", due %" PRIu64, r.due_ms);
  if (view.ttl_ms != kNoTtl) std::printf(", ttl %u ms", view.ttl_ms);
  if (!view.persistent) std::printf(", transient");
  if (r.has_origin) {
    std::printf(", moved from queue %016" PRIx64 " lane %u record %08x/%u", r.origin.queue.value,
                r.origin.lane, r.origin.segment, r.origin.ordinal);
  }
  if (!r.error.empty()) std::printf(", last error \"%s\"", shown(as_bytes(r.error), 200).c_str());
  if (wanted.body_bytes) std::printf(": %s", shown(view.body, wanted.body_bytes).c_str());
  std::printf("\n");
}

void print_segment(const InspectedSegment& s, const Wanted& wanted, Totals& totals) {
  std::map<InspectedRecord::State, uint64_t> counts;
  for (const InspectedRecord& r : s.records) ++counts[r.state];
  using State = InspectedRecord::State;
  std::printf("    segment %08x: %s, %" PRIu64 " bytes, %zu records (%" PRIu64 " ready, %" PRIu64
              " delayed, %" PRIu64 " dying, %" PRIu64 " gone), %u skipped; ack log of %" PRIu64
              " bytes, %" PRIu64 " events\n",
              s.number, s.sealed ? "sealed" : "open", s.file_bytes, s.records.size(),
              counts[State::fresh], counts[State::parked], counts[State::dying],
              counts[State::gone], s.skipped, s.ack_bytes, s.ack_events);
  for (const std::string& line : s.damage) std::printf("      DAMAGE %s\n", line.c_str());
  ++totals.segments;
  totals.fresh += counts[State::fresh];
  totals.parked += counts[State::parked];
  totals.dying += counts[State::dying];
  totals.gone += counts[State::gone];
  totals.damage += s.damage.size();
  if (!wanted.records) return;
  for (const InspectedRecord& r : s.records) {
    if (r.state != State::gone || wanted.gone) print_record(r, wanted);
  }
}

/// The parts of a key ("kind", zero, then each with its length in front).
std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts{key.substr(0, key.find('\0'))};
  for (size_t at = parts[0].size() + 1; at + 4 <= key.size();) {
    const auto bytes = load_be<uint32_t>(as_bytes(key).data() + at);
    if (bytes > key.size() - at - 4) break;
    parts.push_back(key.substr(at + 4, bytes));
    at += 4 + bytes;
  }
  return parts;
}

/// Names of queues by id, and all definitions if wanted.
std::map<uint64_t, std::string> read_definitions(const Wanted& wanted, Totals& totals) {
  std::string error;
  const auto all = inspect_definitions(wanted.data_dir, error);
  std::map<uint64_t, std::string> names;
  std::printf("definitions: %zu\n", all.size());
  if (!error.empty()) {
    ++totals.damage;
    std::printf("  DAMAGE %s\n", error.c_str());
  }
  for (const auto& [key, value] : all) {
    const auto parts = parts_of(key);
    const auto table =
        value.empty() ? FieldTable::decode({}) : FieldTable::decode(as_bytes(value).subspan(1));
    std::string name;
    for (size_t i = 1; i < parts.size(); ++i)
      name += (i > 1 ? " / " : "") + shown(as_bytes(parts[i]), 300);
    if (wanted.definitions) std::printf("  %s %s\n", parts[0].c_str(), name.c_str());
    const FieldValue* id = table && parts[0] == "queue" ? table->find("id") : nullptr;
    const auto* number = id ? std::get_if<int64_t>(&id->value) : nullptr;
    if (number && parts.size() > 2) {
      names[static_cast<uint64_t>(*number)] = "'" + parts[2] + "' in vhost '" + parts[1] + "'";
    }
  }
  return names;
}

int run(const Wanted& wanted) {
  FileSystem& files = posix_file_system();
  Totals totals;
  const auto names = read_definitions(wanted, totals);
  const std::string top = wanted.data_dir + "/queues";
  auto queues = files.list(top);
  if (!queues) {
    std::fprintf(stderr, "tarrymq-dump: %s: %s\n", top.c_str(), queues.error().message().c_str());
    return 2;
  }
  for (const DirectoryEntry& queue : *queues) {
    if (!queue.directory) continue;
    const uint64_t id = std::strtoull(queue.name.c_str(), nullptr, 16);
    auto named = names.find(id);
    const std::string name = named == names.end() ? "(no definition)" : named->second;
    if (!wanted.queue.empty() && queue.name != wanted.queue &&
        !name.starts_with("'" + wanted.queue + "'"))
      continue;
    std::printf("queue %s %s\n", queue.name.c_str(), name.c_str());
    auto lanes = files.list(top + "/" + queue.name);
    if (!lanes) continue;
    for (const DirectoryEntry& lane : *lanes) {
      if (!lane.directory) continue;
      const std::string directory = top + "/" + queue.name + "/" + lane.name;
      std::printf("  lane %s\n", lane.name.c_str());
      for (const InspectedSegment& segment : inspect_log(files, directory))
        print_segment(segment, wanted, totals);
      auto left = files.list(directory);
      for (const DirectoryEntry& entry : left ? *left : std::vector<DirectoryEntry>{}) {
        if (entry.name.ends_with(".damaged"))
          std::printf("    kept aside: %s\n", entry.name.c_str());
      }
    }
  }
  std::printf("%" PRIu64 " segments: %" PRIu64 " ready, %" PRIu64 " delayed, %" PRIu64
              " dying, %" PRIu64 " gone; %" PRIu64 " findings of damage\n",
              totals.segments, totals.fresh, totals.parked, totals.dying, totals.gone,
              totals.damage);
  return totals.damage > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  CLI::App app(
      "Shows what a TarryMQ data directory holds, and where it is damaged. Changes nothing; of a "
      "broker that runs "
      "it sees what is on the disk.",
      "tarrymq-dump");
  app.footer(
      "Times are broker time in ms since 1970. Exit status: 0 all whole, 1 damage was found, 2 not "
      "readable.");
  app.add_option("data-dir", wanted.data_dir, "the broker's data directory")->required();
  app.add_option("--queue", wanted.queue, "only this queue: its name, or its directory's");
  app.add_flag("--records", wanted.records, "a line for each message that is not gone");
  app.add_flag("--gone", wanted.gone, "also those that are gone but still there");
  app.add_flag("--definitions", wanted.definitions, "a line for each definition");
  app.add_option("--body", wanted.body_bytes, "how many bytes of a body are shown; default 60");
  CLI11_PARSE(app, argc, argv);
  return run(wanted);
}
